package play

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/wire"
)

// Session is the part of link.Session that an agent uses.
type Session interface {
	Read() error
	SendFrame(key wire.StreamKey, last uint64, frame []byte) error
	MaxBatch() int // bytes that a frame may have
	Tick(now time.Time)
	Stats(x *wire.Stats) error
	SendFacts(x *wire.Facts) error
	Sent() uint64
	Bye(reason string)
	Close()
}

// Agent is one simulated agent, as its server calls it.
type Agent interface {
	link.Handler
	// Welcome takes over a new session, before any other call about it.
	Welcome(s Session, w *wire.Welcome)
}

// maxBackoff is the longest mean wait between two attempts to connect: shorter than
// real agents', because a storm is what is measured.
const maxBackoff = time.Second

// signalBackoff is that of agents with values or directives: no storm is measured, and 10,000 agents that ask each second take
// a core from a server that starts.
const signalBackoff = 5 * time.Second

// agent is one simulated machine. Its lock guards everything below it; the sender
// that owns it and its reader meet there.
type agent struct {
	fleet  *Fleet
	class  *class
	book   *Book
	index  int    // in its class
	member int    // of the fleet
	base   uint64 // number of its first state among all
	uid    uuid.UUID
	name   string
	cfg    *link.Config

	mu         sync.Mutex
	session    Session // nil while away
	since      int64   // when it was welcomed last, ns; zero: never
	node       model.NodeID
	keepalive  int64 // ns between signs of life
	set        *checkSet
	stream     wire.StreamID
	assigned   *link.Assignment
	assignedAt int64 // ns
	outgoing
	status []model.Status
	ledger ledger
	fate   fate
	facts  map[string]string // as this session was told
}

// outgoing holds the signals that an agent has still to send or to get acknowledged. Guarded by the agent's lock.
type outgoing struct {
	filling   *frame
	held      []*frame // closed, not acknowledged, by number; the first sent of them are sent
	sent      int
	spooled   int    // bytes in filling and held
	maxBatch  int    // of the session before, or of this one; zero: there was none
	lastSend  int64  // or would have sent: a server that takes nothing is not this loader's silence
	statsAt   int64  // when it tells about itself next
	sentBytes uint64 // by sessions before this one
	runs      uint64 // results that were made
	lost      uint64 // those of them that the spool did not take
	pace      link.Pace
}

var errLeft = errors.New("the run is over")

// live opens a session and starts a goroutine that reads it; it tries again until ctx ends. A goroutine that has
// dialled keeps a stack of eight kilobytes, and one that only reads needs four, so another goroutine reads.
func (a *agent) live(ctx context.Context, readers *sync.WaitGroup) {
	const first = 50 * time.Millisecond
	most := maxBackoff
	if a.class.source != nil {
		most = signalBackoff
	}
	for wait := first; a.await(ctx); wait = min(2*wait, most) {
		s, err := a.open(ctx)
		if err == nil {
			readers.Go(func() { a.listen(ctx, readers, s) })
			return
		}
		a.mu.Lock()
		broken := a.session != nil // welcomed, and then not
		a.mu.Unlock()
		if broken {
			a.left(ctx, err)
		}
		if ctx.Err() != nil {
			return
		}
		a.fleet.failed(a, err)
		var refused *link.RefusedError
		if errors.As(err, &refused) && refused.RetryMs > 0 {
			wait = max(wait, time.Duration(refused.RetryMs)*time.Millisecond)
		}
		pause.For(ctx, wait/2+rand.N(wait))
	}
}

// listen reads a session until it ends, then opens the next one.
func (a *agent) listen(ctx context.Context, readers *sync.WaitGroup, s Session) {
	err := s.Read()
	readers.Go(func() { a.again(ctx, readers, err) })
}

// again handles the end of a session, waits if the server asked for a pause, and opens the next session.
func (a *agent) again(ctx context.Context, readers *sync.WaitGroup, err error) {
	a.left(ctx, err)
	var leaving *link.ServerStoppingError
	if errors.As(err, &leaving) {
		pause.For(ctx, leaving.Retry)
	}
	a.live(ctx, readers)
}

// open opens a session, when few others are being opened.
func (a *agent) open(ctx context.Context) (Session, error) {
	select {
	case a.fleet.opening <- struct{}{}:
		defer func() { <-a.fleet.opening }()
	case <-ctx.Done():
		return nil, errLeft
	}
	a.mu.Lock()
	hello := wire.Hello{Protocol: wire.Protocol, Features: wire.Features(), Node: a.uid, Name: a.name, MachineID: a.uid.String(), BootID: a.bootID(),
		Session: rand.Uint64(), Version: "load", OS: "linux", Arch: "amd64", ClockUnixMs: time.Now().UnixMilli(),
		Streams: []wire.StreamRange{a.holds()}}
	if a.fleet.cfg.Facts != nil {
		a.facts = a.fleet.cfg.Facts(a.index)
	}
	hello.Facts = a.facts
	assigned := a.assigned
	a.mu.Unlock()
	return a.fleet.Connect(context.WithValue(ctx, cableOf{}, a), a.cfg, a.class.addr, &hello, assigned, a)
}

const (
	renamed = "changed" // code of the refusal of a session whose node has another name now
	stalled = "stalled" // code of the refusal by which a server that stood still asks for results again
)

// left counts the end of a session as a loss, unless the run itself ended it.
func (a *agent) left(ctx context.Context, err error) {
	a.mu.Lock()
	if a.session != nil {
		a.sentBytes += a.session.Sent()
	}
	a.session, a.fate.line = nil, nil
	var refused *link.RefusedError
	if errors.As(err, &refused) && (refused.Code == stalled || refused.Code == renamed && a.class.spec.Churn.Renames != "") {
		a.excuse()
	} else {
		a.uncount()
	}
	excused := a.fate.excused
	a.mu.Unlock()
	if ctx.Err() == nil && !excused {
		a.fleet.lost(a, err)
	}
}

// cause returns the text of an error without the local port, so that many sessions share one text.
func cause(err error) string {
	text := err.Error()
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Source != nil {
		text = strings.ReplaceAll(text, op.Source.String()+"->", "")
	}
	return text
}
