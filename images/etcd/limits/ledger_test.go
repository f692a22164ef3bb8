package limits

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

var start = time.Unix(1_000_000, 0)

func ledger(base, perAddress int) *Ledger {
	each := Allowance{Base: base, PerAddress: perAddress}
	return NewLedger(Limits{Streams: each, Watches: each, Leases: each})
}

func expect(t *testing.T, refusal *Refusal, limit string) {
	t.Helper()
	switch {
	case limit == "" && refusal != nil:
		t.Fatalf("refused: %s", refusal)
	case limit != "" && (refusal == nil || refusal.Limit != limit):
		t.Fatalf("want a refusal by %s, got %v", limit, refusal)
	}
}

func grant(l *Ledger, name string, id int64, now time.Time) *Refusal {
	refusal := l.BeginGrant(name, 10, now)
	if refusal == nil {
		l.EndGrant(name, id, 10, now)
	}
	return refusal
}

func TestStreamsOfAJobAreBoundedAndComeBackWhenTheyEnd(t *testing.T) {
	l := ledger(2, 0)
	expect(t, l.OpenStream("a", "1"), "")
	expect(t, l.OpenStream("a", "1"), "")
	refusal := l.OpenStream("a", "1")
	expect(t, refusal, "streams")
	for _, part := range []string{Mark, "of 2 streams", "etcd.limits.streams"} {
		if !strings.Contains(refusal.Text, part) {
			t.Errorf("%q is not in %q", part, refusal.Text)
		}
	}
	expect(t, l.OpenStream("b", "1"), "") // another job
	l.CloseStream("a", "1", 0)
	expect(t, l.OpenStream("a", "1"), "")
}

func TestEachAddressWithAStreamAddsToTheAllowance(t *testing.T) {
	l := ledger(1, 2)
	for range 3 {
		expect(t, l.OpenStream("a", "1"), "")
	}
	expect(t, l.OpenStream("a", "1"), "streams")
	expect(t, l.OpenStream("a", "2"), "")
	expect(t, l.OpenStream("a", "2"), "")
	expect(t, l.OpenStream("a", "2"), "streams")
	l.CloseStream("a", "2", 0)
	l.CloseStream("a", "2", 0)
	expect(t, l.OpenStream("a", "1"), "streams") // the address is gone, and its share with it
}

func TestARefusedStreamAddsNoAddress(t *testing.T) {
	l := ledger(1, 0)
	expect(t, l.OpenStream("a", "1"), "")
	for n := range 100 {
		expect(t, l.OpenStream("a", fmt.Sprint(n)), "streams")
	}
	if has := len(l.jobs["a"].addresses); has != 1 {
		t.Fatalf("%d addresses", has)
	}
}

func TestAddressesAddNoMoreThanTheMost(t *testing.T) {
	a := Allowance{Base: 1, PerAddress: 1}
	if a.Of(10*MaxAddresses) != a.Of(MaxAddresses) {
		t.Fatal(a.Of(10 * MaxAddresses))
	}
}

func TestWatchesAreBoundedAndEndWithTheirStream(t *testing.T) {
	l := ledger(3, 0)
	expect(t, l.OpenStream("a", "1"), "")
	for range 3 {
		expect(t, l.OpenWatch("a", 100), "")
	}
	expect(t, l.OpenWatch("a", 100), "watches")
	l.CloseWatch("a")
	expect(t, l.OpenWatch("a", 100), "")
	l.CloseStream("a", "1", 3)
	expect(t, l.OpenWatch("a", MaxWatchBytes), "")
	expect(t, l.OpenWatch("a", MaxWatchBytes+1), "watch-size")
}

func TestLeasesAreBoundedUntilTheyEnd(t *testing.T) {
	l := ledger(2, 0)
	expect(t, grant(l, "a", 1, start), "")
	expect(t, grant(l, "a", 2, start), "")
	expect(t, grant(l, "a", 3, start), "leases")
	expect(t, grant(l, "b", 4, start), "")
	expect(t, grant(l, "a", 3, start.Add(2*RefillTime)), "") // both have run out
}

func TestALeaseThatIsRenewedCounts(t *testing.T) {
	l := ledger(1, 0)
	now := start
	expect(t, grant(l, "a", 1, now), "")
	for range 100 {
		now = now.Add(9 * time.Second)
		l.Renewed("a", 1, 10, now)
	}
	expect(t, grant(l, "a", 2, now.Add(9*time.Second)), "leases")
	expect(t, grant(l, "a", 2, now.Add(11*time.Second)), "")
}

func TestALeaseThatIsRevokedByAnybodyIsNotCounted(t *testing.T) {
	l := ledger(1, 60)
	_ = l.OpenStream("a", "1") // room in the rate
	l.limits.Leases = Allowance{Base: 1}
	expect(t, grant(l, "a", 1, start), "")
	l.Revoked(1)
	expect(t, grant(l, "a", 2, start.Add(RefillTime)), "")
}

func TestAGrantThatFailsIsNotCounted(t *testing.T) {
	l := ledger(2, 0)
	expect(t, l.BeginGrant("a", 10, start), "")
	l.EndGrant("a", 0, 0, start)
	expect(t, grant(l, "a", 1, start), "")
	expect(t, grant(l, "a", 2, start), "lease-rate")
	expect(t, grant(l, "a", 2, start.Add(RefillTime/2)), "")
}

func TestGrantsThatAreUnderWayCount(t *testing.T) {
	l := ledger(2, 0)
	expect(t, l.BeginGrant("a", 10, start), "")
	expect(t, l.BeginGrant("a", 10, start), "")
	expect(t, l.BeginGrant("a", 10, start), "leases")
}

func TestGrantsAndRevokesInTurnsAreBounded(t *testing.T) {
	l := ledger(60, 0)
	granted, now := 0, start
	for range 10_000 { // of ten a second
		now = now.Add(100 * time.Millisecond)
		if grant(l, "a", 1, now) == nil {
			granted++
			l.Revoked(1)
		}
	}
	if most := 60 + 1_000; granted > most || granted < most-2 {
		t.Fatalf("%d leases in 1,000 s", granted)
	}
}

func TestALeaseOfACenturyIsRefused(t *testing.T) {
	l := ledger(2, 0)
	expect(t, l.BeginGrant("a", MaxLeaseSeconds+1, start), "lease-ttl")
	expect(t, l.BeginGrant("a", MaxLeaseSeconds, start), "")
}

func TestNoBaseIsNoLimit(t *testing.T) {
	l := ledger(0, 1)
	for id := range int64(1_000) {
		expect(t, l.OpenStream("a", "1"), "")
		expect(t, l.OpenWatch("a", 1), "")
		expect(t, grant(l, "a", id, start), "")
	}
}

func TestJobsThatHaveEndedAreForgotten(t *testing.T) {
	l := ledger(10, 0)
	expect(t, l.OpenStream("a", "1"), "")
	expect(t, grant(l, "b", 1, start), "")
	later := start.Add(2 * RefillTime)
	l.Forget(later)
	if len(l.jobs) != 1 {
		t.Fatalf("%d jobs are known, of which one has a stream", len(l.jobs))
	}
	l.CloseStream("a", "1", 0)
	l.Forget(later)
	if len(l.jobs) != 0 {
		t.Fatal("a job without anything is known")
	}
}

func TestAllowancesComeFromTheEnvironment(t *testing.T) {
	given := map[string]string{streamsVariable: "7", leasesVariable: "0", exemptVariable: "admin,other"}
	limits, err := FromEnvironment(func(name string) string { return given[name] })
	if err != nil || limits.Streams.Base != 7 || limits.Leases.Base != 0 || limits.Watches.Base == 0 {
		t.Fatal(limits, err)
	}
	if !limits.Exempt["admin"] || !limits.Exempt["other"] || limits.Exempt["root"] {
		t.Fatal(limits.Exempt)
	}
	for _, wrong := range []string{"-1", "many"} {
		given[watchesVariable] = wrong
		if _, err := FromEnvironment(func(name string) string { return given[name] }); err == nil {
			t.Fatalf("%q was taken", wrong)
		}
	}
}
