package guard

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"elasticjob.io/etcd/limits"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

const method = "/etcdserverpb.KV/Range"

// of returns the context of a client whose certificate has this name; without a name it has none.
func of(name string) context.Context {
	state := tls.ConnectionState{}
	if name != "" {
		certificate := &x509.Certificate{Subject: pkix.Name{CommonName: name}}
		state.VerifiedChains = [][]*x509.Certificate{{certificate}}
	}
	address := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 4711}
	return peer.NewContext(context.Background(), &peer.Peer{Addr: address, AuthInfo: credentials.TLSInfo{State: state}})
}

// guarding returns a guard with these limits, without a server, and the limits that have refused.
func guarding(given limits.Limits) (*Guard, *[]string) {
	refused := &[]string{}
	ledger := limits.NewLedger(given)
	report := func(name string, refusal *limits.Refusal) { *refused = append(*refused, name+" "+refusal.Limit) }
	made := &flow{ledger: ledger, codec: newCodec(), end: func(string) {}}
	exempt := map[string]bool{"root": true}
	return &Guard{ledger: ledger, exempt: exempt, now: time.Now, refuse: report, flow: made}, refused
}

func (g *Guard) call(name string, request, answer any, err error) error {
	info := &grpc.UnaryServerInfo{FullMethod: method}
	_, got := g.Unary(of(name), request, info, func(context.Context, any) (any, error) { return answer, err })
	return got
}

func expectCode(t *testing.T, err error, code codes.Code) {
	t.Helper()
	if got := status.Code(err); got != code {
		t.Fatalf("want %s, got %s: %v", code, got, err)
	}
}

func granted(id int64) *pb.LeaseGrantResponse { return &pb.LeaseGrantResponse{ID: id, TTL: 10} }

func TestLeasesOfAJobAreBoundedAndThoseOfOthersAreNot(t *testing.T) {
	g, refused := guarding(limits.Limits{Leases: limits.Allowance{Base: 1}})
	ask := &pb.LeaseGrantRequest{TTL: 10}
	expectCode(t, g.call("a", ask, granted(1), nil), codes.OK)
	expectCode(t, g.call("a", ask, granted(2), nil), codes.ResourceExhausted)
	expectCode(t, g.call("b", ask, granted(3), nil), codes.OK)
	for range 3 {
		expectCode(t, g.call("root", ask, granted(4), nil), codes.OK)
		expectCode(t, g.call("", ask, granted(5), nil), codes.OK) // without a certificate: the member itself
	}
	if len(*refused) != 1 || (*refused)[0] != "a leases" {
		t.Fatal(*refused)
	}
}

func TestALeaseThatSomebodyEndsMakesRoomAndOneThatEtcdKeepsDoesNot(t *testing.T) {
	g, _ := guarding(limits.Limits{Leases: limits.Allowance{Base: 2}})
	g.now = func() time.Time { return time.Unix(0, 0) }
	ask := &pb.LeaseGrantRequest{TTL: 10}
	expectCode(t, g.call("a", ask, granted(1), nil), codes.OK)
	expectCode(t, g.call("a", ask, granted(2), nil), codes.OK)
	expectCode(t, g.call("root", &pb.LeaseRevokeRequest{ID: 1}, nil, rpctypes.ErrGRPCTimeout), codes.Unavailable)
	expectCode(t, g.call("a", ask, granted(3), nil), codes.ResourceExhausted)
	expectCode(t, g.call("root", &pb.LeaseRevokeRequest{ID: 1}, &pb.LeaseRevokeResponse{}, nil), codes.OK)
	g.now = func() time.Time { return time.Unix(0, 0).Add(limits.RefillTime / 2) } // the rate allows one more
	expectCode(t, g.call("a", ask, granted(4), nil), codes.OK)
}

func TestAGrantWhoseClientGaveUpCountsSinceEtcdMayStillGrantIt(t *testing.T) {
	for _, lost := range []error{context.Canceled, context.DeadlineExceeded, rpctypes.ErrGRPCTimeout, rpctypes.ErrGRPCLeaderChanged} {
		g, _ := guarding(limits.Limits{Leases: limits.Allowance{Base: 1}})
		given := time.Unix(0, 0)
		g.now = func() time.Time { return given }
		ask := &pb.LeaseGrantRequest{ID: 7, TTL: 3_600}
		if err := g.call("a", ask, nil, lost); err == nil {
			t.Fatal("no error")
		}
		given = given.Add(2 * limits.RefillTime) // so that the rate refuses nothing
		expectCode(t, g.call("a", &pb.LeaseGrantRequest{TTL: 10}, granted(8), nil), codes.ResourceExhausted)
		given = given.Add(time.Hour)
		expectCode(t, g.call("a", &pb.LeaseGrantRequest{TTL: 10}, granted(8), nil), codes.OK)
	}
}

func TestALeaseCountsUntilItEndsThoughAShorterGrantOfItsIDWasGivenUp(t *testing.T) {
	g, _ := guarding(limits.Limits{Leases: limits.Allowance{Base: 2}})
	given := time.Unix(0, 0)
	g.now = func() time.Time { return given }
	long := &pb.LeaseGrantResponse{ID: 7, TTL: 3_600}
	expectCode(t, g.call("a", &pb.LeaseGrantRequest{ID: 7, TTL: 3_600}, long, nil), codes.OK)
	if err := g.call("a", &pb.LeaseGrantRequest{ID: 7, TTL: 1}, nil, context.Canceled); err == nil {
		t.Fatal("no error")
	}
	given = given.Add(2 * limits.RefillTime) // so that the rate refuses nothing
	expectCode(t, g.call("a", &pb.LeaseGrantRequest{TTL: 3_600}, &pb.LeaseGrantResponse{ID: 8, TTL: 3_600}, nil), codes.OK)
	expectCode(t, g.call("a", &pb.LeaseGrantRequest{TTL: 10}, granted(9), nil), codes.ResourceExhausted)
}

func TestALeaseWhoseGrantWasGivenUpCountsThoughARenewalHasNotFoundItYet(t *testing.T) {
	g, _ := guarding(limits.Limits{Leases: limits.Allowance{Base: 1}, Streams: limits.Allowance{Base: 1}})
	given := time.Unix(0, 0)
	g.now = func() time.Time { return given }
	if err := g.call("a", &pb.LeaseGrantRequest{ID: 7, TTL: 3_600}, nil, context.Canceled); err == nil {
		t.Fatal("no error")
	}
	err := watching(t, g, nil, func(stream grpc.ServerStream) {
		if err := stream.SendMsg(&pb.LeaseKeepAliveResponse{ID: 7, TTL: 0}); err != nil {
			t.Error(err)
		}
	})
	expectCode(t, err, codes.OK)
	given = given.Add(2 * limits.RefillTime) // so that the rate refuses nothing
	expectCode(t, g.call("a", &pb.LeaseGrantRequest{TTL: 10}, granted(8), nil), codes.ResourceExhausted)
}

func TestAGrantThatEtcdRefusedDoesNotCount(t *testing.T) {
	for _, refusal := range []error{
		rpctypes.ErrGRPCLeaseExist, rpctypes.ErrGRPCNoSpace, rpctypes.ErrGRPCLeaseTTLTooLarge, rpctypes.ErrGRPCPermissionDenied,
		rpctypes.ErrGRPCInvalidAuthToken,
	} {
		g, _ := guarding(limits.Limits{Leases: limits.Allowance{Base: 2}})
		for range 2 {
			if err := g.call("a", &pb.LeaseGrantRequest{ID: 7, TTL: 10}, nil, refusal); err == nil {
				t.Fatal("no error")
			}
		}
		g.now = func() time.Time { return time.Now().Add(2 * limits.RefillTime) }
		expectCode(t, g.call("a", &pb.LeaseGrantRequest{TTL: 10}, granted(1), nil), codes.OK)
		expectCode(t, g.call("a", &pb.LeaseGrantRequest{TTL: 10}, granted(2), nil), codes.OK)
	}
}

func TestServicesThatOpenLeasesInsideEtcdAreRefusedToJobs(t *testing.T) {
	g, refused := guarding(limits.Limits{})
	for _, service := range []string{"/v3lockpb.Lock/Lock", "/v3electionpb.Election/Campaign"} {
		info := &grpc.UnaryServerInfo{FullMethod: service}
		handle := func(context.Context, any) (any, error) { return nil, nil }
		_, err := g.Unary(of("a"), nil, info, handle)
		expectCode(t, err, codes.PermissionDenied)
		_, err = g.Unary(of("root"), nil, info, handle)
		expectCode(t, err, codes.OK)
		streamed := &grpc.StreamServerInfo{FullMethod: service}
		expectCode(t, g.Stream(nil, &served{ctx: of("a")}, streamed, nil), codes.PermissionDenied)
	}
	if len(*refused) != 4 {
		t.Fatal(*refused)
	}
}

// served is a stream of requests, in order, and of answers.
type served struct {
	grpc.ServerStream
	ctx      context.Context
	requests []*pb.WatchRequest
	answers  int
}

func (s *served) Context() context.Context { return s.ctx }

func (s *served) RecvMsg(message any) error {
	if len(s.requests) == 0 {
		return status.Error(codes.Canceled, "the client is gone")
	}
	given := message.(*pb.WatchRequest)
	given.RequestUnion, s.requests = s.requests[0].RequestUnion, s.requests[1:]
	return nil
}

func (s *served) SendMsg(any) error {
	s.answers++
	return nil
}

func creating(key string) *pb.WatchRequest {
	create := &pb.WatchCreateRequest{Key: []byte(key)}
	return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: create}}
}

func watching(t *testing.T, g *Guard, requests []*pb.WatchRequest, handle func(grpc.ServerStream)) error {
	t.Helper()
	info := &grpc.StreamServerInfo{FullMethod: "/etcdserverpb.Watch/Watch", IsServerStream: true}
	return g.Stream(nil, &served{ctx: of("a"), requests: requests}, info, func(_ any, stream grpc.ServerStream) error {
		handle(stream)
		return nil
	})
}

func receive(t *testing.T, stream grpc.ServerStream) error {
	t.Helper()
	return stream.RecvMsg(&pb.WatchRequest{})
}

func answer(t *testing.T, stream grpc.ServerStream, id int64, created, canceled bool) {
	t.Helper()
	if err := stream.SendMsg(&pb.WatchResponse{WatchId: id, Created: created, Canceled: canceled}); err != nil {
		t.Fatal(err)
	}
}

func TestWatchesOfAJobAreBoundedAndComeBackOnce(t *testing.T) {
	g, refused := guarding(limits.Limits{Watches: limits.Allowance{Base: 2}})
	four := []*pb.WatchRequest{creating("1"), creating("2"), creating("3"), creating("4")}
	err := watching(t, g, four, func(stream grpc.ServerStream) {
		for id := range int64(2) {
			expectCode(t, receive(t, stream), codes.OK)
			answer(t, stream, id, true, false)
		}
		answer(t, stream, 1, false, true) // ended by its client
		answer(t, stream, 1, false, true) // and again, as after a compaction
		expectCode(t, receive(t, stream), codes.OK)
		answer(t, stream, -1, true, true) // refused by etcd
		expectCode(t, receive(t, stream), codes.OK)
		stream.(interface{ RecvMsg(any) error }).RecvMsg(&pb.WatchRequest{}) //nolint:errcheck // the client is gone
	})
	expectCode(t, err, codes.OK)
	for range 2 { // the watches of the stream are free again
		if refusal := g.ledger.OpenWatch("a", 10); refusal != nil {
			t.Fatal(refusal)
		}
	}
	if refusal := g.ledger.OpenWatch("a", 10); refusal == nil {
		t.Fatal("more is allowed than before")
	}
	if len(*refused) != 0 {
		t.Fatal(*refused)
	}
}

func TestAWatchTooManyEndsItsStreamWithTheCure(t *testing.T) {
	g, refused := guarding(limits.Limits{Watches: limits.Allowance{Base: 1}})
	err := watching(t, g, []*pb.WatchRequest{creating("1"), creating("2")}, func(stream grpc.ServerStream) {
		expectCode(t, receive(t, stream), codes.OK)
		expectCode(t, receive(t, stream), codes.Canceled)
	})
	expectCode(t, err, codes.ResourceExhausted)
	if len(*refused) != 1 || (*refused)[0] != "a watches" {
		t.Fatal(*refused)
	}
	if refusal := g.ledger.OpenWatch("a", 10); refusal != nil {
		t.Fatal("the stream has ended, and its watch is still counted")
	}
}

func TestAWatchThatIsTooLargeIsAnInvalidArgument(t *testing.T) {
	g, _ := guarding(limits.Limits{})
	err := watching(t, g, []*pb.WatchRequest{creating(string(make([]byte, 3_000)))}, func(stream grpc.ServerStream) {
		expectCode(t, receive(t, stream), codes.Canceled)
	})
	expectCode(t, err, codes.InvalidArgument)
}

func TestStreamsOfAJobAreBounded(t *testing.T) {
	g, _ := guarding(limits.Limits{Streams: limits.Allowance{Base: 1}})
	err := watching(t, g, nil, func(grpc.ServerStream) {
		expectCode(t, watching(t, g, nil, func(grpc.ServerStream) { t.Error("a second stream") }), codes.ResourceExhausted)
	})
	expectCode(t, err, codes.OK)
	expectCode(t, watching(t, g, nil, func(grpc.ServerStream) {}), codes.OK)
}

func TestALeaseThatIsKeptAliveCountsUntilItEnds(t *testing.T) {
	g, _ := guarding(limits.Limits{Leases: limits.Allowance{Base: 1}})
	err := watching(t, g, nil, func(stream grpc.ServerStream) {
		if err := stream.SendMsg(&pb.LeaseKeepAliveResponse{ID: 1, TTL: 60}); err != nil {
			t.Fatal(err)
		}
		expectCode(t, g.call("a", &pb.LeaseGrantRequest{TTL: 10}, granted(2), nil), codes.ResourceExhausted)
		if err := stream.SendMsg(&pb.LeaseKeepAliveResponse{ID: 1, TTL: 0}); err != nil {
			t.Fatal(err)
		}
		expectCode(t, g.call("a", &pb.LeaseGrantRequest{TTL: 10}, granted(2), nil), codes.OK)
	})
	expectCode(t, err, codes.OK)
}

func TestAReadIsChargedUntilItsReplyIsSent(t *testing.T) {
	const mib = 1 << 20
	g, _ := guarding(limits.Limits{Bytes: limits.Allowance{Base: 4 * mib}})
	reply := func() *pb.RangeResponse {
		return &pb.RangeResponse{Kvs: []*mvccpb.KeyValue{{Key: []byte("k"), Value: make([]byte, 5*mib)}}}
	}
	first := reply()
	expectCode(t, g.call("a", &pb.RangeRequest{Serializable: true}, first, nil), codes.OK)
	ctx, cancel := context.WithCancel(of("a"))
	cancel()
	_, err := g.Unary(ctx, &pb.RangeRequest{}, &grpc.UnaryServerInfo{FullMethod: method}, nil)
	expectCode(t, err, codes.Canceled) // it waits for its turn
	data, err := g.flow.codec.Marshal(first)
	if err != nil {
		t.Fatal(err)
	}
	data.Free()
	expectCode(t, g.call("a", &pb.RangeRequest{}, reply(), nil), codes.OK)
}
