package guard

import (
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

func get(key, end string) *pb.RequestOp {
	asked := &pb.RangeRequest{Key: []byte(key), RangeEnd: []byte(end)}
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: asked}}
}

func put(key string, isReading bool) *pb.RequestOp {
	asked := &pb.PutRequest{Key: []byte(key), PrevKv: isReading}
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: asked}}
}

func remove(key string) *pb.RequestOp {
	asked := &pb.DeleteRangeRequest{Key: []byte(key), PrevKv: true}
	return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: asked}}
}

func inner(ops ...*pb.RequestOp) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: &pb.TxnRequest{Failure: ops}}}
}

func compare(key, end string) *pb.Compare {
	return &pb.Compare{Key: []byte(key), RangeEnd: []byte(end)}
}

func TestRequestsAreTakenForWhatTheyRead(t *testing.T) {
	for name, given := range map[string]struct {
		request any
		kind    kind
	}{
		"a range":                   {&pb.RangeRequest{}, readsOnly},
		"a put":                     {&pb.PutRequest{}, readsNothing},
		"a put with the old value":  {&pb.PutRequest{PrevKv: true}, readsAndWrites},
		"a delete":                  {&pb.DeleteRangeRequest{}, readsNothing},
		"a delete with old values":  {&pb.DeleteRangeRequest{PrevKv: true}, readsAndWrites},
		"a lease":                   {&pb.LeaseTimeToLiveRequest{}, readsNothing},
		"a lease with its keys":     {&pb.LeaseTimeToLiveRequest{Keys: true}, readsAndWrites},
		"a grant":                   {&pb.LeaseGrantRequest{}, readsNothing},
		"an empty transaction":      {&pb.TxnRequest{}, readsNothing},
		"ranges only":               {&pb.TxnRequest{Success: []*pb.RequestOp{get("a", "b")}}, readsOnly},
		"a range or a put":          {&pb.TxnRequest{Success: []*pb.RequestOp{get("a", "")}, Failure: []*pb.RequestOp{put("a", false)}}, readsAndWrites},
		"puts only":                 {&pb.TxnRequest{Success: []*pb.RequestOp{put("a", false)}}, readsNothing},
		"a put that reads":          {&pb.TxnRequest{Failure: []*pb.RequestOp{put("a", true)}}, readsAndWrites},
		"a range inside":            {&pb.TxnRequest{Success: []*pb.RequestOp{inner(get("a", "b"))}}, readsAndWrites},
		"a comparison of a range":   {&pb.TxnRequest{Compare: []*pb.Compare{compare("a", "b")}, Success: []*pb.RequestOp{put("a", false)}}, readsAndWrites},
		"a comparison of one key":   {&pb.TxnRequest{Compare: []*pb.Compare{compare("a", "")}, Success: []*pb.RequestOp{put("a", false)}}, readsNothing},
		"a comparison without more": {&pb.TxnRequest{Compare: []*pb.Compare{nil, compare("a", "b")}}, readsOnly},
	} {
		t.Run(name, func(t *testing.T) {
			if got, refusal := classify(given.request); got != given.kind || refusal != nil {
				t.Fatal(got, refusal)
			}
		})
	}
}

func many(op func() *pb.RequestOp) []*pb.RequestOp {
	made := make([]*pb.RequestOp, 100)
	for i := range made {
		made[i] = op()
	}
	return made
}

func TestATransactionThatReadsAKeyManyTimesIsRefusedInWhateverFormItReads(t *testing.T) {
	for name, op := range map[string]func() *pb.RequestOp{
		"ranges":                func() *pb.RequestOp { return get("a", "b") },
		"deletes":               func() *pb.RequestOp { return remove("a") },
		"puts":                  func() *pb.RequestOp { return put("a", true) },
		"transactions inside":   func() *pb.RequestOp { return inner(get("a", "")) },
		"and inside once again": func() *pb.RequestOp { return inner(inner(get("a", ""))) },
	} {
		t.Run(name, func(t *testing.T) {
			for _, txn := range []*pb.TxnRequest{{Success: many(op)}, {Failure: many(op)}} {
				if _, refusal := classify(txn); refusal == nil || refusal.Limit != "reads" {
					t.Fatal(refusal)
				}
			}
		})
	}
}

func TestOnlyRequestsThatReadWholeBecomeSerializable(t *testing.T) {
	txn := &pb.TxnRequest{Success: []*pb.RequestOp{get("a", "")}, Failure: []*pb.RequestOp{get("b", "")}}
	txn.Failure[0].GetRequestRange().Serializable = true
	if isSerializable(txn) {
		t.Fatal("one of its reads is not")
	}
	makeSerializable(txn)
	if !isSerializable(txn) || !txn.Success[0].GetRequestRange().Serializable {
		t.Fatal(txn)
	}
	if !isSerializable(&pb.PutRequest{}) {
		t.Fatal("a put reads nothing that could wait")
	}
}
