package streamed

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/load/clock"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/wire"
)

// Run holds what a Peer knows of its run.
type Run struct {
	API     *client.Client
	Log     *slog.Logger
	Address string // of this machine, that the server reaches
	*clock.Clock
}

// streamHandler is the handler by which a run is told of every result.
const streamHandler = "load-stream"

// Peer receives the lines of the stream handler, and compares each with its result.
type Peer struct {
	run      Run
	listener net.Listener
	reading  sync.WaitGroup
	machines map[string]*Machine // by the agent's stream, as lines have it; not changed after it began

	mu    sync.Mutex // guards what follows
	conns []net.Conn // that are open
	heard int64      // when the last line came, ns
	took  *hdrhistogram.Histogram
	sum   report.Streamed
}

// handler returns the handler that tells the peer of every result.
func (k *Peer) handler(connections int) model.Resource {
	return simulated.Resource(model.Metadata{Name: streamHandler, Namespace: simulated.Namespace}, &model.HandlerSpec{Stream: &model.Stream{
		Address: k.listener.Addr().String(), Connections: connections, Results: model.AllResults,
	}})
}

// Declare creates the handler, and waits until the server connects. Call Machine before.
func (k *Peer) Declare(ctx context.Context, connections int) error {
	k.reading.Go(k.accept)
	if err := simulated.Apply(ctx, k.run.API, "the stream of a load run", k.handler(connections)); err != nil {
		return err
	}
	// It begins at the journal's head of when the server sees it: results may flow from then on.
	handler := kind.Handler().KindInfo
	for until := time.Now().Add(30 * time.Second); ; pause.For(ctx, moment) {
		state, err := k.run.API.Resources.State(ctx, handler, simulated.Namespace, streamHandler)
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

// End removes the handler.
func (k *Peer) End() {
	if k == nil {
		return
	}
	ctx, over := context.WithTimeout(context.Background(), 10*time.Second)
	defer over()
	if err := simulated.Delete(ctx, k.run.API, "the load run is over", k.handler(1)); err != nil {
		k.run.Log.Warn("the handler of a load run stays on the server", "handler", simulated.Namespace+"/"+streamHandler, "error", err)
	}
	k.listener.Close()
	k.mu.Lock()
	for _, conn := range k.conns {
		conn.Close()
	}
	k.mu.Unlock()
	k.reading.Wait()
}

// Listen opens the socket for lines; none come before Declare.
func Listen(run Run) (*Peer, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(run.Address, "0"))
	if err != nil {
		return nil, model.Errorf(model.Unavailable, "listen for the lines of a stream: %w", err)
	}
	return &Peer{run: run, listener: l, machines: map[string]*Machine{}, took: hdrhistogram.New(1, report.MaxLatency, 3)}, nil
}

// Machine starts to compare the lines of a machine's stream with its results. numbers may take any lock except a
// Machine's.
func (k *Peer) Machine(stream wire.StreamID, name string, numbers func() Numbers) *Machine {
	x := newMachine(k, name, numbers)
	k.machines[fmt.Sprintf("%016x", uint64(stream))] = x
	return x
}

// accept accepts the server's connections.
func (k *Peer) accept() {
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

// lineOf holds the fields of a line that the peer reads.
type lineOf struct {
	Kind   string `json:"kind"`
	Node   string `json:"node"`
	Check  string `json:"check"`
	Status string `json:"status"`
	Stream string `json:"stream"`
	Number uint64 `json:"number"`
}

// mostLine bounds a line: an output of 1 MiB, each byte of which may take six.
const mostLine = 8 << 20

// read reads the lines of a connection.
func (k *Peer) read(conn net.Conn) {
	defer func() {
		conn.Close()
		k.mu.Lock()
		k.conns = slices.DeleteFunc(k.conns, func(c net.Conn) bool { return c == conn })
		k.mu.Unlock()
	}()
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
		k.line(text, k.run.Now())
	}
}

// line passes a line to its machine.
func (k *Peer) line(text []byte, at int64) {
	n, err := parseLine(text)
	if err != nil {
		k.mu.Lock()
		k.sum.Unread++
		k.sum.Example = cmp.Or(k.sum.Example, err.Error())
		k.mu.Unlock()
		return
	}
	if x := k.machines[n.Stream]; n.Kind == "result" && x != nil && n.Number > 0 { // else it is not of this run
		x.line(&n, at)
	}
}

// parseLine decodes a line.
func parseLine(text []byte) (n lineOf, err error) {
	if err = json.Unmarshal(text, &n); err != nil {
		return n, fmt.Errorf("a line of the stream cannot be read: %w", err)
	}
	return n, nil
}

// note changes the counts under the peer's lock.
func (k *Peer) note(at int64, change func(*report.Streamed)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.heard = max(k.heard, at)
	change(&k.sum)
}

// pair compares a line with the acknowledged result of its number.
func (k *Peer) pair(number uint64, want, got *Result) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.heard = max(k.heard, got.At)
	k.sum.Lines++
	if want.Node != got.Node || want.Check != got.Check || want.Status != got.Status {
		k.sum.Other++
		k.sum.Example = cmp.Or(k.sum.Example, fmt.Sprintf("number %d was %s, and its line says %s", number, want.says(), got.says()))
	}
	if k.run.Measured(want.At) {
		k.sum.Timed++
		report.Record(k.took, got.At-want.At, 1)
	}
}

// missing counts the lines that have not come yet.
func (k *Peer) missing() (n int, example string) {
	for _, x := range k.machines {
		x.mu.Lock()
		n += len(x.due)
		for number, want := range x.due {
			example = cmp.Or(example, fmt.Sprintf("%s: no line of its number %d, of %.1f s", x.name, number, k.run.Since(want.At)))
			break
		}
		x.mu.Unlock()
	}
	return n, example
}

// Conclude waits until no line is missing, or none came for a while, and returns the counts.
func (k *Peer) Conclude(ctx context.Context) *report.Streamed {
	if k == nil {
		return nil
	}
	began := k.run.Now()
	n, example := k.missing()
	for ; n > 0 && ctx.Err() == nil; n, example = k.missing() {
		k.mu.Lock()
		quiet := k.run.Now() - max(began, k.heard)
		k.mu.Unlock()
		if quiet > int64(patience) {
			break
		}
		pause.For(ctx, moment)
	}
	extra, such := 0, ""
	for _, x := range k.machines {
		more, one := x.extra()
		extra, such = extra+more, cmp.Or(such, one)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	sum := k.sum
	sum.Missing, sum.Extra, sum.Example = uint64(n), sum.Extra+uint64(extra), cmp.Or(sum.Example, such, example)
	sum.Latency, sum.Curve = report.LatencyOf(k.took), report.CurveOf(k.took)
	return &sum
}

// patience is for how long lines that have to come are waited for, after the last one that came.
const patience = 30 * time.Second

// moment is how long it waits before it looks again.
const moment = 50 * time.Millisecond
