package limits

import (
	"context"
	"slices"
)

const (
	// RequestCost is about the memory of a request or a reply beside its own bytes.
	RequestCost = 16 << 10
	// ReadFloor is kept free for each read in progress, since the size of its reply is unknown.
	ReadFloor = 16 << 20
	// WriteFloor is the same for a write that reads: etcd makes the replies of those one after another.
	WriteFloor = 64 << 10
)

// flow is the memory that requests of one job take now.
type flow struct {
	requests int64 // in progress
	replies  int64 // made, and not yet sent
	reserved int64 // for reads in progress
	largest  int64 // of recent replies
	waiting  []*waiter
}

type waiter struct {
	need  int64
	ready chan struct{} // closed once need is reserved
}

func (f *flow) isIdle() bool {
	return f.requests == 0 && f.replies == 0 && f.reserved == 0 && len(f.waiting) == 0
}

// fits reports whether the need has room. A need of all that is allowed, or more, is served alone.
func (f *flow) fits(need, allowed int64) bool {
	has := f.replies + f.reserved
	return has == 0 || has+need <= allowed
}

func (f *flow) wake(allowed int64) {
	for len(f.waiting) > 0 && f.fits(f.waiting[0].need, allowed) {
		f.reserved += f.waiting[0].need
		close(f.waiting[0].ready)
		f.waiting = f.waiting[1:]
	}
}

func (l *Ledger) allowedBytes(j *job) int64 {
	return int64(l.limits.Bytes.Of(len(j.dialed)))
}

// BeginRequest counts a request of so many bytes, or refuses; EndRequest must follow unless it refuses.
func (l *Ledger) BeginRequest(name string, size int) *Refusal {
	l.mu.Lock()
	defer l.mu.Unlock()
	j, cost := l.job(name), int64(size)+RequestCost
	allowed := l.allowedBytes(j)
	if l.limits.Bytes.Base > 0 && j.flow.requests+cost > allowed {
		return tooMuch(allowed)
	}
	j.flow.requests += cost
	return nil
}

// EndRequest is called once, when etcd has finished the request.
func (l *Ledger) EndRequest(name string, size int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.job(name).flow.requests -= int64(size) + RequestCost
}

// AwaitRoom waits for the turn of a read, and reserves so many bytes if it may; Replied must follow unless it fails.
//
// It reserves the size of the largest recent reply, at most all that is allowed: the size is unknown in advance.
// Reads wait in their order.
func (l *Ledger) AwaitRoom(ctx context.Context, name string, least int64) (int64, error) {
	if l.limits.Bytes.Base == 0 {
		return 0, nil
	}
	l.mu.Lock()
	j := l.job(name)
	allowed := l.allowedBytes(j)
	mine := &waiter{need: min(max(least, j.flow.largest), allowed), ready: make(chan struct{})}
	j.flow.waiting = append(j.flow.waiting, mine)
	j.flow.wake(allowed)
	l.mu.Unlock()
	select {
	case <-mine.ready:
		return mine.need, nil
	case <-ctx.Done():
		l.abandon(name, mine)
		return 0, ctx.Err()
	}
}

func (l *Ledger) abandon(name string, mine *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	j := l.job(name)
	if at := slices.Index(j.flow.waiting, mine); at >= 0 {
		j.flow.waiting = slices.Delete(j.flow.waiting, at, at+1)
	} else {
		j.flow.reserved -= mine.need // it was granted at the same moment
	}
	j.flow.wake(l.allowedBytes(j))
}

// Replied counts a reply in place of its reservation, until Sent. It refuses a reply with which the job would have twice
// its allowance, as after several reads with unexpectedly large replies. Then nothing is counted.
func (l *Ledger) Replied(name string, reserved int64, size int) *Refusal {
	l.mu.Lock()
	defer l.mu.Unlock()
	j := l.job(name)
	f, allowed := &j.flow, l.allowedBytes(j)
	defer f.wake(allowed)
	f.reserved -= reserved
	if reserved > 0 {
		f.largest = max(int64(size), f.largest-f.largest/8)
	}
	if reserved > 0 && f.replies > 0 && f.replies+int64(size) > 2*allowed {
		return tooMuch(allowed)
	}
	f.replies += int64(size) + RequestCost
	return nil
}

// Failed returns the reservation of a reply that was not made.
func (l *Ledger) Failed(name string, reserved int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	j := l.job(name)
	j.flow.reserved -= reserved
	j.flow.wake(l.allowedBytes(j))
}

// Sent is called once for each counted reply, when nothing refers to it any more.
func (l *Ledger) Sent(name string, size int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	j := l.job(name)
	j.flow.replies -= int64(size) + RequestCost
	j.flow.wake(l.allowedBytes(j))
}
