package limits

import (
	"fmt"
	"strconv"
	"strings"
)

// The environment has the limits, so that a command line is the same for upstream's etcd, which ignores these names.
const (
	streamsVariable = "ELASTICJOB_ETCD_MAX_STREAMS"
	watchesVariable = "ELASTICJOB_ETCD_MAX_WATCHES"
	leasesVariable  = "ELASTICJOB_ETCD_MAX_LEASES"
	dialsVariable   = "ELASTICJOB_ETCD_MAX_CONNECTIONS"
	bytesVariable   = "ELASTICJOB_ETCD_MAX_BYTES"
	exemptVariable  = "ELASTICJOB_ETCD_EXEMPT"
)

// FromEnvironment reads the limits; 0 is none.
func FromEnvironment(get func(string) string) (Limits, error) {
	limits := Limits{
		Streams:     Allowance{Base: 512, PerAddress: 32},
		Watches:     Allowance{Base: 1_024, PerAddress: 32},
		Leases:      Allowance{Base: 4_096, PerAddress: 16},
		Connections: Allowance{Base: 512, PerAddress: 32},
		Bytes:       Allowance{Base: 67_108_864, PerAddress: 262_144},
		Exempt:      map[string]bool{"root": true},
	}
	for variable, base := range map[string]*int{
		streamsVariable: &limits.Streams.Base, watchesVariable: &limits.Watches.Base, leasesVariable: &limits.Leases.Base,
		dialsVariable: &limits.Connections.Base, bytesVariable: &limits.Bytes.Base,
	} {
		if text := get(variable); text != "" {
			number, err := strconv.Atoi(text)
			if err != nil || number < 0 {
				return limits, fmt.Errorf("%s=%q: a number of 0 or more is needed; 0 is no limit", variable, text)
			}
			*base = number
		}
	}
	if text := get(exemptVariable); text != "" {
		limits.Exempt = map[string]bool{}
		for _, name := range strings.Split(text, ",") {
			limits.Exempt[name] = true
		}
	}
	return limits, nil
}
