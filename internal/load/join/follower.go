package join

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/version"
)

// Follower is a loader that plays one part. It implements load.Lead: what it is told, and
// what it tells.
type Follower struct {
	conn *conn
	base time.Time // of its clock
	end  context.CancelCauseFunc
	both sync.WaitGroup // reader, and signs of life

	awaited
	welcome    *welcome
	plan       *plan
	identities []identity
	told       map[string]bool // kinds without a body that were heard
	begin      *instant
	over       *over
	score      func(time.Duration, []load.Span) error
	renamed    func(int, string)
}

// Dial joins the run of a token. The part is to be played within Context, which ends with
// ctx, and when the run ends for all. The caller closes it.
func Dial(ctx context.Context, token Token) (*Follower, error) {
	dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: helloWithin}, Config: pinned(token.Sum)}
	c, err := dialer.DialContext(ctx, "tcp", token.Address)
	if errors.Is(err, errAnother) {
		return nil, model.Errorf(model.Unauthenticated, "join the run at %s: %w", token.Address, errAnother).WithHint("paste the token that this run printed: it is new for each")
	}
	if err != nil {
		return nil, model.Errorf(model.Unavailable, "join the run at %s: %w", token.Address, err).
			WithHint("is muster load run --loaders N waiting there? On another machine its --listen-join must be an address that this one reaches")
	}
	opened, err := token.join(c)
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	f := &Follower{conn: opened, base: time.Now(), awaited: awaited{changed: make(chan struct{})}, told: map[string]bool{}, score: func(time.Duration, []load.Span) error { return nil }, renamed: func(int, string) {}}
	f.ctx, f.end = context.WithCancelCause(ctx)
	context.AfterFunc(f.ctx, f.hangUp)
	f.both.Go(f.read)
	f.both.Go(f.live)
	return f, nil
}

// protocol is the one that a follower upgrades to.
const protocol = "muster-load-join"

// join asks the lead for a place in its run, over a new connection.
func (t Token) join(c net.Conn) (*conn, error) {
	broken := func(err error) error {
		return model.Errorf(model.Unavailable, "join the run at %s: %w", t.Address, err)
	}
	body, err := json.Marshal(hello{Version: Version, Build: version.Get().Version, Name: hostname(), Machine: machineID()})
	if err != nil {
		return nil, broken(err)
	}
	r, err := http.NewRequest(http.MethodPost, "https://"+t.Address+joinPath, bytes.NewReader(body))
	if err != nil {
		return nil, broken(err)
	}
	r.Header.Set("Authorization", t.authorization())
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", protocol)
	_ = c.SetDeadline(time.Now().Add(helloWithin))
	if err := r.Write(c); err != nil {
		return nil, broken(err)
	}
	in := bufio.NewReader(c)
	answer, err := http.ReadResponse(in, r)
	if err != nil {
		return nil, broken(err)
	}
	if answer.StatusCode != http.StatusSwitchingProtocols {
		defer answer.Body.Close()
		if said := parseRefusal(io.LimitReader(answer.Body, mostHello)); said != nil {
			return nil, said
		}
		return nil, broken(fmt.Errorf("it answered %s", answer.Status))
	}
	_ = c.SetDeadline(time.Time{})
	return newConn(c, in), nil
}

// parseRefusal returns the reason why the lead refuses this loader; nil: it gave none.
func parseRefusal(r io.Reader) error {
	var said failed
	if json.NewDecoder(r).Decode(&said) != nil || said.Message == "" {
		return nil
	}
	return said.of("")
}

// Context ends when the run cannot go on; its cause says why.
func (f *Follower) Context() context.Context { return f.ctx }

// Number waits until all have joined, and says which loader this one is, of how many.
func (f *Follower) Number() (number, of int, err error) {
	err = f.await(f.ctx, func() bool { return f.welcome != nil })
	if err != nil {
		return 0, 0, err
	}
	return f.welcome.Number, f.welcome.Of, nil
}

// Plan waits for what is to be played.
func (f *Follower) Plan() (load.Config, error) {
	if err := f.await(f.ctx, func() bool { return f.told[kindPrepare] && f.plan != nil }); err != nil {
		return load.Config{}, err
	}
	return f.plan.config(f.identities)
}

// Stop asks for the end of the run's present phase: the lead compares and reports what was played.
func (f *Follower) Stop() { _ = f.conn.send(kindStop, nil) }

// Stopped says whether the lead found nothing wrong but that the run was stopped.
func (f *Follower) Stopped() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.over != nil && f.over.Stopped
}

// Verdict is what the lead said in the end; ok: all was as it should be.
func (f *Follower) Verdict() (sentences []string, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over == nil {
		return nil, false
	}
	return f.over.Verdict, f.over.OK
}

// Close leaves; err, where there is one, is why this part could not be played to the end,
// which the lead is told.
func (f *Follower) Close(err error) {
	if err == nil {
		err = model.Errorf(model.Unavailable, "it has left")
	}
	f.end(err)
	f.hangUp()
	f.both.Wait()
}

func (f *Follower) hangUp() {
	f.mu.Lock()
	over := f.over
	f.mu.Unlock()
	if over == nil {
		_ = f.conn.send(kindFailed, failure(reason(f.ctx, "it")))
	}
	_ = f.conn.Close()
}

func (f *Follower) live() {
	turn := time.NewTicker(aliveEvery)
	defer turn.Stop()
	for {
		select {
		case <-f.ctx.Done():
			return
		case <-turn.C:
			_ = f.conn.send(kindAlive, nil)
		}
	}
}

// read hears the lead until it leaves.
func (f *Follower) read() {
	for {
		m, err := f.conn.receive()
		if err == nil {
			err = f.hear(&m)
		}
		if err == nil {
			continue
		}
		var said *told
		var own *model.Error
		if errors.As(err, &said) {
			err = said.of("")
		} else if !errors.As(err, &own) && f.ctx.Err() == nil {
			err = model.Errorf(model.Unavailable, "the loader that leads was lost: %s", plain(err)).WithHint("the run is over; what became of it is said there")
		}
		f.end(err)
		return
	}
}

// hear takes what the lead says.
func (f *Follower) hear(said *message) error {
	body, err := said.decode()
	if err != nil {
		return err
	}
	switch m := body.(type) { // what is not kept
	case *clock:
		return f.conn.send(kindAnswer, clock{Question: m.Question, At: time.Since(f.base)})
	case *failed:
		return &told{*m}
	case *renamed:
		f.callees().renamed(m.Member, m.Name)
		return nil
	case *score:
		return f.callees().score(m.From, m.Spans)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch m := body.(type) {
	case *welcome:
		f.welcome = m
	case *plan:
		f.plan = m
	case *[]identity:
		if f.identities = append(f.identities, *m...); len(f.identities) > mostAgents {
			return model.Errorf(model.TooLarge, "more keys than machines")
		}
	case *instant:
		f.begin = m
	case *over:
		f.over = m
	case nil:
		f.told[said.Kind] = true
	default:
		return model.Errorf(model.Invalid, "a message of the kind %q, which is not the lead's", said.Kind)
	}
	f.change()
	return nil
}

type callees struct {
	score   func(time.Duration, []load.Span) error
	renamed func(int, string)
}

func (f *Follower) callees() callees {
	f.mu.Lock()
	defer f.mu.Unlock()
	return callees{f.score, f.renamed}
}
