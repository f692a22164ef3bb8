// Package limits bounds what the certificate of one job may have open at one member of etcd.
//
// It decides without etcd and gRPC; package guard counts requests and connects both.
package limits

import (
	"fmt"
	"time"
)

// Allowance is the number that a job may have at once: Base, and PerAddress more for each address with a stream.
//
// A pod has one address, so the allowance follows the existing pods. Base is for clients that share one
// address: pods with hostNetwork, and networks that translate addresses.
type Allowance struct {
	Base       int
	PerAddress int
}

// Of is the allowance of a job with so many addresses; no base is no limit.
func (a Allowance) Of(addresses int) int {
	return a.Base + a.PerAddress*min(addresses, MaxAddresses)
}

const (
	// MaxAddresses bounds the addresses that count, for networks where a pod can give itself more of them.
	MaxAddresses = 10_000
	// MaxLeaseSeconds is the longest life of a job's lease. An agent asks for keepAliveSeconds: some seconds.
	MaxLeaseSeconds = 3_600
	// MaxWatchBytes bounds the request for a watch, which etcd keeps as long as the watch: two keys, and no value.
	MaxWatchBytes = 2_048
	// RefillTime is the time in which as many leases can be granted again as may exist at once.
	RefillTime = time.Minute
)

// Limits are the allowances of each job at one member.
type Limits struct {
	Streams Allowance // of watches and of lease keep-alives
	Watches Allowance
	Leases  Allowance
	// Connections are counted by the certificate, whether anything is asked over them or not.
	Connections Allowance
	// Bytes of requests under way, and as many of replies that are not sent; more for each address with a connection.
	Bytes Allowance
	// Exempt are the users without limits: the operator's.
	Exempt map[string]bool
}

// Refusal names the limit that refused; its text has the cure.
type Refusal struct {
	Limit string // streams, watches, leases, connections, bytes, lease-rate, lease-ttl, watch-size, reads, service
	Text  string
}

// Mark is in the text of every temporary refusal: clients recognise it and try again.
const Mark = "the limit of one job"

func (r *Refusal) Error() string { return r.Text }

func full(what string, has, allowed int) *Refusal {
	text := fmt.Sprintf(
		"%s of %d %s at one member of etcd is reached, %d are there: close some, or raise etcd.limits.%s of the chart",
		Mark, allowed, what, has, what)
	return &Refusal{Limit: what, Text: text}
}

func tooMuch(allowed int64) *Refusal {
	text := fmt.Sprintf(
		"%s of %d bytes under way at one member of etcd is reached: ask for less at once, or raise etcd.limits.bytes of the chart",
		Mark, allowed)
	return &Refusal{Limit: "bytes", Text: text}
}

func readAgain(times int) *Refusal {
	text := fmt.Sprintf("a transaction that reads a key %d times is refused: a job's may %d times", times, MaxReadsOfAKey)
	return &Refusal{Limit: "reads", Text: text}
}

func tooFast(allowed int) *Refusal {
	text := fmt.Sprintf(
		"%s of %d leases in %s at one member of etcd is reached: ask again later, or raise etcd.limits.leases of the chart",
		Mark, allowed, RefillTime)
	return &Refusal{Limit: "lease-rate", Text: text}
}

func tooLong(seconds int64) *Refusal {
	text := fmt.Sprintf("a lease of %d seconds is refused: a job's may have %d", seconds, MaxLeaseSeconds)
	return &Refusal{Limit: "lease-ttl", Text: text}
}

func tooLarge(size int) *Refusal {
	text := fmt.Sprintf("a request of %d bytes for a watch is refused: a job's may have %d", size, MaxWatchBytes)
	return &Refusal{Limit: "watch-size", Text: text}
}

// NoService refuses a method that the limits cannot count.
func NoService(method string) *Refusal {
	text := fmt.Sprintf("%s is refused to jobs: it opens leases and watches that etcd does not count", method)
	return &Refusal{Limit: "service", Text: text}
}
