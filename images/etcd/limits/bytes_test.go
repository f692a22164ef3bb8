package limits

import (
	"context"
	"errors"
	"testing"
	"time"
)

const mib = 1 << 20

func flowing(base, perAddress int) *Ledger {
	return NewLedger(Limits{
		Bytes:       Allowance{Base: base, PerAddress: perAddress},
		Connections: Allowance{Base: 100},
	})
}

// awaiting starts a read that waits for its turn; the channel delivers its reservation.
func awaiting(t *testing.T, l *Ledger, ctx context.Context, least int64) <-chan int64 {
	t.Helper()
	before := len(l.jobs["a"].flow.waiting)
	turn := make(chan int64, 1)
	go func() {
		if reserved, err := l.AwaitRoom(ctx, "a", least); err == nil {
			turn <- reserved
		}
		close(turn)
	}()
	for deadline := time.Now().Add(time.Minute); ; {
		l.mu.Lock()
		has := len(l.jobs["a"].flow.waiting)
		l.mu.Unlock()
		if has > before {
			return turn
		}
		if time.Now().After(deadline) {
			t.Fatal("it does not wait")
		}
		time.Sleep(time.Millisecond)
	}
}

func room(t *testing.T, l *Ledger, least int64) int64 {
	t.Helper()
	reserved, err := l.AwaitRoom(context.Background(), "a", least)
	if err != nil {
		t.Fatal(err)
	}
	return reserved
}

func TestReadsWaitForRoomAndGoOnWhenARepliesIsSent(t *testing.T) {
	l := flowing(4*mib, 0)
	first := room(t, l, 3*mib)
	second := awaiting(t, l, context.Background(), 3*mib)
	expect(t, l.Replied("a", first, 2*mib), "")
	select {
	case <-second:
		t.Fatal("it has not waited")
	default:
	}
	l.Sent("a", 2*mib)
	if reserved := <-second; reserved != 3*mib {
		t.Fatal(reserved)
	}
}

func TestAReadThatIsLargerThanAllThatIsAllowedGoesAlone(t *testing.T) {
	l := flowing(mib, 0)
	first := room(t, l, 16*mib)
	second := awaiting(t, l, context.Background(), 16*mib)
	l.Failed("a", first)
	<-second
}

func TestAReadReservesNoMoreThanAllThatIsAllowed(t *testing.T) {
	l := flowing(4*mib, 0)
	expect(t, l.Replied("a", room(t, l, 1), 8*mib), "")
	l.Sent("a", 8*mib)
	if reserved := room(t, l, 1); reserved != 4*mib {
		t.Fatal(reserved)
	}
}

func TestAReadThatGivesUpMakesRoomForTheNext(t *testing.T) {
	l := flowing(mib, 0)
	first := room(t, l, mib)
	ctx, cancel := context.WithCancel(context.Background())
	second := awaiting(t, l, ctx, mib)
	third := awaiting(t, l, context.Background(), mib)
	cancel()
	if _, isGranted := <-second; isGranted {
		t.Fatal("its turn came")
	}
	l.Failed("a", first)
	<-third
	if _, err := l.AwaitRoom(ctx, "a", mib); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestAReadReservesTheLargestReplyOfLate(t *testing.T) {
	l := flowing(64*mib, 0)
	expect(t, l.Replied("a", room(t, l, 1), 8*mib), "")
	l.Sent("a", 8*mib)
	if reserved := room(t, l, 1); reserved != 8*mib {
		t.Fatal(reserved)
	}
}

func TestARepliesBeyondTwiceTheLimitIsRefusedAndGivesItsRoomBack(t *testing.T) {
	l := flowing(4*mib, 0)
	reserved := []int64{room(t, l, 1), room(t, l, 1), room(t, l, 1)}
	expect(t, l.Replied("a", reserved[0], 4*mib), "")
	expect(t, l.Replied("a", reserved[1], 3*mib), "")
	expect(t, l.Replied("a", reserved[2], 3*mib), "bytes")
	expect(t, l.Replied("a", 0, 100), "") // of a request that reads nothing
	for _, size := range []int{4 * mib, 3 * mib, 100} {
		l.Sent("a", size)
	}
	if !l.jobs["a"].isIdle() {
		t.Fatalf("%+v", l.jobs["a"].flow)
	}
}

func TestRequestsUnderWayAreBounded(t *testing.T) {
	l := flowing(4*mib, 0)
	expect(t, l.BeginRequest("a", 3*mib), "")
	expect(t, l.BeginRequest("a", mib), "bytes")
	expect(t, l.BeginRequest("b", 3*mib), "") // another job
	l.EndRequest("a", 3*mib)
	expect(t, l.BeginRequest("a", mib), "")
}

func TestEachAddressWithAConnectionAddsBytes(t *testing.T) {
	l := flowing(mib, mib)
	expect(t, l.BeginRequest("a", mib), "bytes")
	expect(t, l.OpenConnection("a", "1"), "")
	expect(t, l.BeginRequest("a", mib), "")
}

func TestWithoutALimitNothingWaits(t *testing.T) {
	l := flowing(0, 0)
	for range 100 {
		expect(t, l.BeginRequest("a", 100*mib), "")
		expect(t, l.Replied("a", room(t, l, ReadFloor), 100*mib), "")
	}
}
