package guard

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"elasticjob.io/etcd/limits"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver"
)

// maxNesting is more than etcd allows.
const maxNesting = 128

type sized interface{ Size() int }

func sizeOf(message any) int {
	if known, ok := message.(sized); ok {
		return known.Size()
	}
	return 0
}

// flow makes the requests of a job wait for room.
type flow struct {
	ledger *limits.Ledger
	codec  *codec
	end    func(remote string)
	server atomic.Pointer[etcdserver.EtcdServer] // nil until the server runs
}

// handle calls the handler within three bounds: bytes of requests, the order of reads, and bytes of replies.
func (f *flow) handle(ctx context.Context, name string, req any, handle grpc.UnaryHandler) (any, *limits.Refusal, error) {
	size := sizeOf(req)
	if refusal := f.ledger.BeginRequest(name, size); refusal != nil {
		return nil, refusal, nil
	}
	defer f.ledger.EndRequest(name, size)
	reserved, refusal, err := f.await(ctx, name, req)
	if refusal != nil || err != nil {
		return nil, refusal, err
	}
	answer, err := handle(ctx, req)
	if err != nil {
		f.ledger.Failed(name, reserved)
		return answer, nil, err
	}
	return f.charge(ctx, name, reserved, answer)
}

// await reserves memory for what the request reads.
func (f *flow) await(ctx context.Context, name string, req any) (int64, *limits.Refusal, error) {
	kind, refusal := classify(req)
	if refusal != nil || kind == readsNothing {
		return 0, refusal, nil
	}
	floor := int64(limits.WriteFloor)
	if kind == readsOnly {
		floor = limits.ReadFloor
		f.catchUp(ctx, req)
	}
	reserved, err := f.ledger.AwaitRoom(ctx, name, floor)
	if err != nil {
		return 0, nil, status.FromContextError(err).Err()
	}
	return reserved, nil, nil
}

// catchUp waits until this member has applied all that was written before the request, as etcd does for many requests
// at once. The rest takes processor time only, so few at a time are as fast as many.
func (f *flow) catchUp(ctx context.Context, req any) {
	server := f.server.Load()
	if server == nil || isSerializable(req) {
		return
	}
	if err := server.LinearizableReadNotify(ctx); err == nil {
		makeSerializable(req)
	} // else etcd waits itself, and its own error has the reason
}

func (f *flow) charge(ctx context.Context, name string, reserved int64, answer any) (any, *limits.Refusal, error) {
	size := sizeOf(answer)
	if refusal := f.ledger.Replied(name, reserved, size); refusal != nil {
		return nil, refusal, nil
	}
	end := func() {}
	if from, ok := peer.FromContext(ctx); ok {
		end = func() { f.end(from.Addr.String()) }
	}
	f.codec.replies.Store(answer, &reply{ledger: f.ledger, name: name, size: size, end: end})
	return answer, nil, nil
}

type kind int

const (
	readsNothing kind = iota
	readsOnly
	readsAndWrites
)

func classify(req any) (kind, *limits.Refusal) {
	switch given := req.(type) {
	case *pb.RangeRequest:
		return readsOnly, nil
	case *pb.LeaseTimeToLiveRequest:
		return readsIf(given.Keys), nil
	case *pb.PutRequest:
		return readsIf(given.PrevKv), nil
	case *pb.DeleteRangeRequest:
		return readsIf(given.PrevKv), nil
	case *pb.TxnRequest:
		return classifyTxn(given)
	}
	return readsNothing, nil
}

func readsIf(reads bool) kind {
	if reads {
		return readsAndWrites
	}
	return readsNothing
}

func classifyTxn(txn *pb.TxnRequest) (kind, *limits.Refusal) {
	found := kind(readsNothing)
	for _, branch := range [][]*pb.RequestOp{txn.Success, txn.Failure} {
		spans := readBy(branch, comparesOf(txn, nil), 0)
		if refusal := limits.CheckReads(spans); refusal != nil {
			return found, refusal
		}
		if len(spans) > 0 {
			found = readsAndWrites
		}
	}
	if found != readsNothing && isReadonly(txn) {
		found = readsOnly
	}
	return found, nil
}

// comparesOf returns the ranges that a transaction compares: etcd reads them whole.
func comparesOf(txn *pb.TxnRequest, spans []limits.Span) []limits.Span {
	for _, compare := range txn.Compare {
		if compare != nil && len(compare.RangeEnd) > 0 {
			spans = append(spans, limits.Span{Key: compare.Key, End: compare.RangeEnd})
		}
	}
	return spans
}

// readBy adds what the operations read; of a transaction inside, both branches.
func readBy(ops []*pb.RequestOp, spans []limits.Span, nesting int) []limits.Span {
	for _, op := range ops {
		switch {
		case op.GetRequestRange() != nil:
			spans = append(spans, limits.Span{Key: op.GetRequestRange().Key, End: op.GetRequestRange().RangeEnd})
		case op.GetRequestDeleteRange().GetPrevKv():
			spans = append(spans, limits.Span{Key: op.GetRequestDeleteRange().Key, End: op.GetRequestDeleteRange().RangeEnd})
		case op.GetRequestPut().GetPrevKv():
			spans = append(spans, limits.Span{Key: op.GetRequestPut().Key})
		case op.GetRequestTxn() != nil && nesting < maxNesting:
			inner := op.GetRequestTxn()
			spans = comparesOf(inner, spans)
			spans = readBy(inner.Success, spans, nesting+1)
			spans = readBy(inner.Failure, spans, nesting+1)
		}
	}
	return spans
}

func isReadonly(txn *pb.TxnRequest) bool {
	for _, op := range append(append([]*pb.RequestOp{}, txn.Success...), txn.Failure...) {
		if op.GetRequestRange() == nil {
			return false
		}
	}
	return true
}

func rangesOf(req any) []*pb.RangeRequest {
	switch given := req.(type) {
	case *pb.RangeRequest:
		return []*pb.RangeRequest{given}
	case *pb.TxnRequest:
		ranges := make([]*pb.RangeRequest, 0, len(given.Success)+len(given.Failure))
		for _, op := range append(append([]*pb.RequestOp{}, given.Success...), given.Failure...) {
			ranges = append(ranges, op.GetRequestRange())
		}
		return ranges
	}
	return nil
}

func isSerializable(req any) bool {
	for _, read := range rangesOf(req) {
		if !read.Serializable {
			return false
		}
	}
	return true
}

func makeSerializable(req any) {
	for _, read := range rangesOf(req) {
		read.Serializable = true
	}
}
