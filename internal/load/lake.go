package load

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
)

// streamHandler is the handler by which a run is told of every result.
const streamHandler = "load-stream"

// lake is the peer of that handler: it listens, and holds each line against the result that
// brought it about.
type lake struct {
	run      *run
	listener net.Listener
	reading  sync.WaitGroup
	shores   map[string]*shore // by the agent's stream, as lines have it; not changed after it began

	mu    sync.Mutex // guards what follows
	conns []net.Conn
	heard int64 // when the last line came, ns
	took  *hdrhistogram.Histogram
	sum   report.Streamed
}

// shore is what of one agent's results came. Its lock is taken behind the agent's and before
// the lake's.
type shore struct {
	lake  *lake
	agent *agent

	mu   sync.Mutex
	due  map[uint64]int64 // acknowledged, and no line yet: number → when it was meant
	came map[uint64]int64 // came, and not acknowledged yet: number → when
	seen []uint64         // a bit for each number that came
	last map[told]uint64  // by state: the highest number that came
}

// hearStream arranges that the run is told of every result. It is nil where the scenario
// does not ask for it, and where nobody is logged in.
func (r *run) hearStream(ctx context.Context) (*lake, error) {
	s := r.cfg.Scenario.Stream
	if r.cfg.API == nil || s.Connections == 0 {
		return nil, nil
	}
	l, err := net.Listen("tcp", net.JoinHostPort(r.facing(), "0"))
	if err != nil {
		return nil, model.Errorf(model.Unavailable, "listen for the lines of a stream: %w", err)
	}
	k := &lake{run: r, listener: l, shores: map[string]*shore{}, took: hdrhistogram.New(1, maxLatency, 3)}
	for _, a := range r.agents {
		x := &shore{lake: k, agent: a, due: map[uint64]int64{}, came: map[uint64]int64{}, last: map[told]uint64{}}
		k.shores[fmt.Sprintf("%016x", uint64(a.stream))] = x
		a.mu.Lock()
		a.ledger.shore = x
		a.mu.Unlock()
	}
	k.reading.Go(k.accept)
	if err := k.declare(ctx, s.Connections); err != nil {
		k.end()
		return nil, fmt.Errorf("set up the handler that is told of every result: %w", err)
	}
	return k, nil
}

func (k *lake) declare(ctx context.Context, connections int) error {
	one := simulated.Resource(model.Metadata{Name: streamHandler, Namespace: simulated.Namespace}, &model.HandlerSpec{Stream: &model.Stream{
		Address: k.listener.Addr().String(), Connections: connections, Results: model.AllResults,
	}})
	raw, err := json.Marshal(&one)
	if err != nil {
		return err
	}
	if _, err = k.run.cfg.API.Apply(ctx, v1.ApplyRequest{Yes: true, Message: "the stream of a load run", Resources: []json.RawMessage{raw}}); err != nil {
		return err
	}
	// It begins at the journal's head of when the server sees it: results may flow from then on.
	kind, _ := model.KindOf("Handler")
	for until := time.Now().Add(30 * time.Second); ; pause(ctx, 50*time.Millisecond) {
		state, err := k.run.cfg.API.State(ctx, kind, simulated.Namespace, streamHandler)
		switch {
		case err == nil && state.Stream != nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Now().After(until):
			return model.Errorf(model.Unavailable, "the server does not begin to tell handler %s/%s of results: %v", simulated.Namespace, streamHandler, err)
		}
	}
}

// end takes the handler away again.
func (k *lake) end() {
	if k == nil {
		return
	}
	ctx, over := context.WithTimeout(context.Background(), 10*time.Second)
	defer over()
	kind, _ := model.KindOf("Handler")
	if _, err := k.run.cfg.API.Delete(ctx, kind, simulated.Namespace, streamHandler, "", "the load run is over", 0, false, true); err != nil {
		k.run.cfg.Log.Warn("the handler of a load run stays on the server", "handler", simulated.Namespace+"/"+streamHandler, "error", err)
	}
	k.listener.Close()
	k.mu.Lock()
	for _, conn := range k.conns {
		conn.Close()
	}
	k.mu.Unlock()
	k.reading.Wait()
}

func (k *lake) accept() {
	for {
		conn, err := k.listener.Accept()
		if err != nil {
			return
		}
		k.mu.Lock()
		k.conns = append(k.conns, conn)
		k.sum.Connections++
		k.mu.Unlock()
		k.reading.Go(func() { k.read(conn) })
	}
}

// lineOf is what is read of a line.
type lineOf struct {
	Kind   string `json:"kind"`
	Node   string `json:"node"`
	Check  string `json:"check"`
	Stream string `json:"stream"`
	Number uint64 `json:"number"`
}

// mostLine bounds a line: an output of 1 MiB, each byte of which may take six.
const mostLine = 8 << 20

func (k *lake) read(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReaderSize(conn, 64<<10)
	var long []byte
	for {
		text, err := in.ReadSlice('\n')
		if err == bufio.ErrBufferFull && len(long) < mostLine {
			long = append(long, text...)
			continue
		}
		if err != nil {
			return // a line that is cut comes again
		}
		if len(long) > 0 {
			text = append(long, text...)
			long = long[:0]
		}
		k.line(text, k.run.now())
	}
}

func (k *lake) line(text []byte, at int64) {
	n, err := parseLine(text)
	if err != nil {
		k.mu.Lock()
		k.sum.Unread++
		k.sum.Example = cmp.Or(k.sum.Example, err.Error())
		k.mu.Unlock()
		return
	}
	if x := k.shores[n.Stream]; n.Kind == "result" && x != nil && n.Number > 0 { // else it is not of this run
		x.line(&n, at)
	}
}

func parseLine(text []byte) (n lineOf, err error) {
	if err = json.Unmarshal(text, &n); err != nil {
		return n, fmt.Errorf("a line of the stream cannot be read: %w", err)
	}
	return n, nil
}

// line holds one that came against its result.
func (x *shore) line(n *lineOf, at int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	of := told{n.Node, n.Check}
	word, bit := n.Number/64, uint64(1)<<(n.Number%64)
	for uint64(len(x.seen)) <= word && word < 1<<26 {
		x.seen = append(x.seen, 0)
	}
	k := x.lake
	switch {
	case word >= 1<<26, x.seen[word]&bit != 0:
		k.note(at, func(s *report.Streamed) { s.Twice++ })
		return
	case n.Number < x.last[of]:
		k.note(at, func(s *report.Streamed) {
			s.Disorder++
			s.Example = cmp.Or(s.Example, n.Node+"/"+n.Check+": number "+strconv.FormatUint(n.Number, 10)+" came behind "+strconv.FormatUint(x.last[of], 10))
		})
	}
	x.seen[word] |= bit
	x.last[of] = max(x.last[of], n.Number)
	if intended, ok := x.due[n.Number]; ok {
		delete(x.due, n.Number)
		k.time(intended, at)
		return
	}
	x.came[n.Number] = at
	k.note(at, func(*report.Streamed) {})
}

// result is one that was acknowledged. A nil receiver wants no lines.
func (x *shore) result(number uint64, intended int64) {
	if x == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if at, ok := x.came[number]; ok {
		delete(x.came, number)
		x.lake.time(intended, at)
		return
	}
	x.due[number] = intended
}

// note counts under the lake's lock.
func (k *lake) note(at int64, change func(*report.Streamed)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.heard = max(k.heard, at)
	change(&k.sum)
}

// time takes a line that belongs to a result.
func (k *lake) time(intended, at int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.heard = max(k.heard, at)
	k.sum.Lines++
	if s := k.run.present(); s.at(intended) >= 0 && s[s.at(intended)].measured {
		k.sum.Timed++
		record(k.took, at-intended, 1)
	}
}

// missing is how many lines have not come yet.
func (k *lake) missing() (n int, example string) {
	for _, x := range k.shores {
		x.mu.Lock()
		n += len(x.due)
		for number, intended := range x.due {
			example = cmp.Or(example, fmt.Sprintf("%s: no line of its number %d, of %.1f s", x.agent.name, number, k.run.since(intended)))
			break
		}
		x.mu.Unlock()
	}
	return n, example
}

// conclude waits until nothing is missing any more, or nothing has come for a while.
func (k *lake) conclude(ctx context.Context) *report.Streamed {
	if k == nil {
		return nil
	}
	began := k.run.now()
	n, example := k.missing()
	for ; n > 0 && ctx.Err() == nil; n, example = k.missing() {
		k.mu.Lock()
		quiet := k.run.now() - max(began, k.heard)
		k.mu.Unlock()
		if quiet > int64(2*patience) {
			break
		}
		pause(ctx, 100*time.Millisecond)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	sum := k.sum
	sum.Missing, sum.Example = uint64(n), cmp.Or(sum.Example, example)
	sum.Latency, sum.Curve = report.LatencyOf(k.took), report.CurveOf(k.took)
	return &sum
}
