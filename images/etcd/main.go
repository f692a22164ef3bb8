// Command etcd is etcd's own main. hack/rendezvous-etcd builds it with two lines replaced: etcdmain calls
// guard.StartEtcd in place of embed.StartEtcd, and embed calls connections.NewTLSListener in place of transport's. So
// flags, environment, signals and exit codes are etcd's.
//
// etcd has no limits for a user. It takes the user from the TLS connection, so a proxy would need every job's key.
// Therefore the limits are inside etcd, and this program is the one of the project that is not Python.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}
