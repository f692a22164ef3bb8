package limits

import (
	"sync"
	"time"
)

// Ledger counts what each job has open. Safe for concurrent use.
type Ledger struct {
	limits Limits
	mu     sync.Mutex
	jobs   map[string]*job
}

// NewLedger returns an empty ledger.
func NewLedger(limits Limits) *Ledger {
	return &Ledger{limits: limits, jobs: map[string]*job{}}
}

type job struct {
	addresses map[string]int // streams by address
	streams   int
	watches   int
	granting  int // leases that etcd was asked for and has not answered
	leases    map[int64]lease
	pruned    time.Time // when ended leases were last removed
	asked     float64   // requested leases, less those that time has refilled
	refilled  time.Time

	dialed      map[string]int // connections by address
	connections int
	flow        flow
}

type lease struct {
	ends   time.Time // unless it is renewed
	unsure bool      // etcd has not confirmed it; it may exist later
}

// PruneEvery is the least time between two searches for ended leases, whose cost grows with a job's leases.
const PruneEvery = time.Second

// OpenStream counts one more stream from this address, or refuses.
func (l *Ledger) OpenStream(name, address string) *Refusal {
	l.mu.Lock()
	defer l.mu.Unlock()
	j := l.job(name)
	j.addresses[address]++
	if allowed := l.limits.Streams.Of(len(j.addresses)); l.limits.Streams.Base > 0 && j.streams >= allowed {
		leave(j.addresses, address)
		return full("streams", j.streams, allowed)
	}
	j.streams++
	return nil
}

// CloseStream is called once for each stream that was opened, with the watches it still had.
func (l *Ledger) CloseStream(name, address string, watches int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	j := l.job(name)
	leave(j.addresses, address)
	j.streams--
	j.watches -= watches
}

// OpenWatch counts one more watch with a request of this many bytes, or refuses.
func (l *Ledger) OpenWatch(name string, size int) *Refusal {
	if size > MaxWatchBytes {
		return tooLarge(size)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	j := l.job(name)
	if allowed := l.limits.Watches.Of(len(j.addresses)); l.limits.Watches.Base > 0 && j.watches >= allowed {
		return full("watches", j.watches, allowed)
	}
	j.watches++
	return nil
}

// CloseWatch counts one less.
func (l *Ledger) CloseWatch(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.job(name).watches--
}

// BeginGrant is called before a request for a lease reaches etcd; EndGrant must follow unless it refuses.
func (l *Ledger) BeginGrant(name string, seconds int64, now time.Time) *Refusal {
	if seconds > MaxLeaseSeconds {
		return tooLong(seconds)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	j := l.job(name)
	allowed := l.limits.Leases.Of(len(j.addresses))
	if l.limits.Leases.Base > 0 {
		if len(j.leases)+j.granting >= allowed {
			j.prune(now)
		}
		if has := len(j.leases) + j.granting; has >= allowed {
			return full("leases", has, allowed)
		}
		if !j.take(allowed, now) {
			return tooFast(allowed)
		}
	}
	j.granting++
	return nil
}

// EndGrant is called with etcd's answer; seconds is 0 if it granted nothing.
func (l *Ledger) EndGrant(name string, id, seconds int64, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	j := l.job(name)
	j.granting--
	j.renew(id, seconds, now)
}

// EndUnanswered is called in place of EndGrant when the wait ended without etcd's answer.
//
// It shortens no lease: the ID may be one that the job had before, which lasts as long as it did.
func (l *Ledger) EndUnanswered(name string, id, seconds int64, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	j := l.job(name)
	j.granting--
	if ends := after(seconds, now); j.leases[id].ends.Before(ends) {
		j.leases[id] = lease{ends: ends, unsure: true}
	}
}

// Renewed is called with etcd's answer to a keep-alive; no seconds are left of a lease that has ended.
func (l *Ledger) Renewed(name string, id, seconds int64, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.job(name).renew(id, seconds, now)
}

// Revoked is called when etcd has ended a lease, at the request of any client.
func (l *Ledger) Revoked(id int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, j := range l.jobs {
		delete(j.leases, id)
	}
}

// Forget removes jobs that have had nothing open for a while.
func (l *Ledger) Forget(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, j := range l.jobs {
		j.prune(now)
		if j.isIdle() && now.Sub(j.refilled) > RefillTime {
			delete(l.jobs, name)
		}
	}
}

func (l *Ledger) job(name string) *job {
	j, ok := l.jobs[name]
	if !ok {
		j = &job{addresses: map[string]int{}, leases: map[int64]lease{}, dialed: map[string]int{}}
		l.jobs[name] = j
	}
	return j
}

func (j *job) isIdle() bool {
	isQuiet := j.connections == 0 && j.flow.isIdle()
	return isQuiet && j.streams == 0 && j.watches == 0 && j.granting == 0 && len(j.leases) == 0
}

func leave(addresses map[string]int, address string) {
	if addresses[address]--; addresses[address] == 0 {
		delete(addresses, address)
	}
}

func (j *job) renew(id, seconds int64, now time.Time) {
	if seconds > 0 {
		j.leases[id] = lease{ends: after(seconds, now)}
	} else if !j.leases[id].unsure { // an unconfirmed lease has no seconds left, either
		delete(j.leases, id)
	}
}

func after(seconds int64, now time.Time) time.Time {
	return now.Add(time.Duration(seconds) * time.Second)
}

// prune removes ended leases, if it has not just done so.
func (j *job) prune(now time.Time) {
	if now.Sub(j.pruned) < PruneEvery {
		return
	}
	j.pruned = now
	for id, each := range j.leases {
		if now.After(each.ends) {
			delete(j.leases, id)
		}
	}
}

// take is a token bucket: so many at once, and as many again in RefillTime.
func (j *job) take(allowed int, now time.Time) bool {
	back := now.Sub(j.refilled).Seconds() / RefillTime.Seconds() * float64(allowed)
	j.asked, j.refilled = max(0, j.asked-back), now
	if j.asked+1 > float64(allowed) {
		return false
	}
	j.asked++
	return true
}
