package join

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/version"
)

// Follower is a loader that plays one part. It implements load.Joint.
type Follower struct {
	load.Alone
	token  Token
	client *http.Client
	base   time.Time // of its clock
	end    context.CancelCauseFunc
	both   sync.WaitGroup // messages and orders
	clock  clock

	monitor
	messages outbox[message]
	plan     *followerPart
	connect  bool
	begin    *time.Duration
	over     *over
	score    func(time.Duration, []plan.Part) error
	renamed  func(int, string)
}

// Dial joins the run of a token. The part is to be played within Context: it ends with ctx, and when the run ends for all.
// The caller closes the follower.
func Dial(ctx context.Context, token Token) (*Follower, error) {
	transport := &http.Transport{DialContext: (&net.Dialer{Timeout: silence}).DialContext, TLSClientConfig: pinned(token.Sum),
		TLSHandshakeTimeout: silence, ForceAttemptHTTP2: true}
	f := &Follower{token: token, base: time.Now(), monitor: monitor{changed: make(chan struct{})}, client: &http.Client{Transport: transport},
		score: func(time.Duration, []plan.Part) error { return nil }, renamed: func(int, string) {}}
	f.ctx, f.end = context.WithCancelCause(ctx)
	if err := f.join(); err != nil {
		f.end(err)
		f.both.Wait()
		var refused *model.Error
		switch {
		case errors.Is(err, errAnother):
			return nil, model.Errorf(model.Unauthenticated, "join the run at %s: %w", token.Address, errAnother).WithHint("paste the token that this run printed: it is new for each")
		case errors.As(err, &refused):
			return nil, refused
		}
		return nil, model.Errorf(model.Unavailable, "join the run at %s: %w", token.Address, err).
			WithHint("is muster load run --loaders N waiting there? On another machine its --listen-join must be an address that this one reaches")
	}
	context.AfterFunc(f.ctx, f.leave)
	return f, nil
}

// join opens the connection to the lead, and starts to send messages and to carry out orders. The connection outlives the part, so
// that the lead gets the reason of a failure.
func (f *Follower) join() error {
	ctx, hangUp := context.WithCancelCause(context.WithoutCancel(f.ctx))
	silent := time.AfterFunc(silence, func() { hangUp(errSilent) })
	unanswered := context.AfterFunc(f.ctx, func() { hangUp(context.Cause(f.ctx)) })
	body, out := io.Pipe()
	f.both.Go(func() {
		err := json.NewEncoder(out).Encode(hello{Version: Version, Build: version.Get().Version, Name: load.Hostname(), Machine: machineID()})
		if err == nil {
			err = f.messages.send(ctx, &f.monitor, out, func() error { return nil })
		}
		_ = out.CloseWithError(err)
	})
	response, err := f.request(ctx, http.MethodPost, "/join", body)
	unanswered()
	if err != nil {
		err = cmp.Or(context.Cause(ctx), err)
		hangUp(err)
		return err
	}
	in := newReader(response.Body, mostOrder, func() { silent.Reset(silence) })
	f.both.Go(func() {
		defer response.Body.Close()
		defer hangUp(nil)
		if err := f.obey(in); err != nil && f.verdict() == nil {
			f.lose(cmp.Or(context.Cause(ctx), err))
		}
		for in.next(&order{}) == nil { // until the lead knows why this part ended
		}
		silent.Stop()
	})
	return nil
}

// request sends one request to the lead. An answer other than 2xx is an error.
func (f *Follower) request(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, "https://"+f.token.Address+path, body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", f.token.authorization())
	response, err := f.client.Do(r)
	if err != nil || response.StatusCode/100 == 2 {
		return response, err
	}
	defer response.Body.Close()
	var refused v1.Error
	if err := newReader(response.Body, mostMessage, func() {}).next(&refused); err == nil && refused.Detail != "" {
		return nil, refused.AsModel()
	}
	return nil, fmt.Errorf("%s %s: %s", method, path, response.Status)
}

// send sends a message behind those before it. It does not wait.
func (f *Follower) send(m message) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.messages.put(&f.monitor, m, m.Failed != nil)
}

// Context ends when the run cannot go on; its cause is the reason.
func (f *Follower) Context() context.Context { return f.ctx }

// Plan waits until all have joined, and returns the part to play.
func (f *Follower) Plan() (load.Config, error) {
	var p *followerPart
	if err := f.await(f.ctx, func() bool { p = f.plan; return p != nil }); err != nil {
		return load.Config{}, err
	}
	c, err := p.config()
	c.Joint = f
	return c, err
}

// Stop asks for the end of the present phase: the lead judges the run until then.
func (f *Follower) Stop() { f.send(message{Stop: true}) }

// Stopped reports whether the run was stopped and nothing else is wrong.
func (f *Follower) Stopped() bool { o := f.verdict(); return o != nil && o.Stopped }

// Verdict returns the verdict of the lead; ok means that the run passed.
func (f *Follower) Verdict() (sentences []string, ok bool) {
	if o := f.verdict(); o != nil {
		return o.Verdict, o.OK
	}
	return nil, false
}

// verdict returns the last order of a run that is over, or nil.
func (f *Follower) verdict() *over {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.over
}

// Close leaves the run. The lead receives err as the reason why this part was not played to its end.
func (f *Follower) Close(err error) {
	f.end(cmp.Or(err, error(model.Errorf(model.Unavailable, "it has left"))))
	f.both.Wait()
	f.client.CloseIdleConnections()
}

// leave tells the lead why the part ended, unless the run is over.
func (f *Follower) leave() {
	if f.verdict() == nil {
		f.send(message{Failed: failureOf(causeOf(f.ctx, "it"))})
	}
}

// lose ends the part because of the lead.
func (f *Follower) lose(err error) {
	var own *model.Error
	if errors.As(err, &own) && own.Class != model.Unavailable {
		f.end(own)
		return
	}
	f.end(model.Errorf(model.Unavailable, "the loader that leads was lost: %s", lossOf(err)).
		WithHint("the run is over; the lead prints the reason"))
}

// obey carries out the orders of the lead until the run is over, the part ends or the connection does.
func (f *Follower) obey(in *reader) error {
	for f.verdict() == nil {
		var o order
		if err := in.next(&o); err != nil {
			return err
		}
		if err := f.take(&o); err != nil {
			f.end(err)
			return nil
		}
	}
	return nil
}

// take carries out an order, or stores it.
func (f *Follower) take(o *order) error {
	f.mu.Lock()
	score, rename := f.score, f.renamed
	f.plan, f.begin, f.over, f.connect = cmp.Or(o.Plan, f.plan), cmp.Or(o.Begin, f.begin), cmp.Or(o.Over, f.over), f.connect || o.Connect
	f.messages.full = f.messages.full || o.Over != nil
	f.change()
	f.mu.Unlock()
	switch {
	case o.Failed != nil:
		return o.Failed.AsModel()
	case o.Score != nil:
		return score(o.Score.From, o.Score.Spans)
	case o.Renamed != nil:
		rename(o.Renamed.Member, o.Renamed.Name)
	}
	return nil
}

// clock holds the difference to the lead's clock and its uncertainty, half of the shortest round trip.
type clock struct{ ahead, within time.Duration }

// nearer returns the more certain of two comparisons, or the other if one is zero.
func (c clock) nearer(n clock) clock {
	if c == (clock{}) || n.within < c.within {
		return n
	}
	return c
}

// comparison returns the clock difference from one reading of the lead's clock between two readings of the own.
func comparison(asked, answered, theirs time.Duration) clock {
	return clock{ahead: theirs - (asked+answered)/2, within: (answered - asked) / 2}
}

// setClock compares the clocks.
func (f *Follower) setClock(ctx context.Context) error {
	const times = 10
	for range times {
		var theirs time.Duration
		asked := time.Since(f.base)
		response, err := f.request(ctx, http.MethodGet, "/clock", nil)
		if err != nil {
			return err
		}
		err = newReader(response.Body, mostMessage, func() {}).next(&theirs)
		answered := time.Since(f.base)
		_ = response.Body.Close()
		if err != nil {
			return err
		}
		f.clock = f.clock.nearer(comparison(asked, answered, theirs))
	}
	return nil
}

// Connect reports the hash of the plan that would be played, and waits until agents are to connect.
func (f *Follower) Connect(ctx context.Context, hash string) error {
	f.send(message{Prepared: &hash})
	return f.await(ctx, func() bool { return f.connect })
}

// Ready compares the clocks, and reports that all agents have their checks.
func (f *Follower) Ready(ctx context.Context, own load.Arrived) ([]load.Joined, error) {
	if err := f.setClock(ctx); err != nil {
		return nil, err
	}
	f.send(message{Arrived: &load.Joined{Clock: f.clock.within, Arrived: own}})
	return nil, nil
}

// Begin waits for the beginning of the timetable.
func (f *Follower) Begin(ctx context.Context) (time.Time, error) {
	var at *time.Duration
	if err := f.await(ctx, func() bool { at = f.begin; return at != nil }); err != nil {
		return time.Time{}, err
	}
	return f.base.Add(*at - f.clock.ahead), nil
}

// Hear sets the functions that carry out orders; they are called one at a time.
func (f *Follower) Hear(score func(time.Duration, []plan.Part) error, renamed func(int, string)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.score, f.renamed = score, renamed
}

// Line sends the lead a line of the log. A log has a few lines each second and, in the end, one for each agent.
func (f *Follower) Line(l observe.Line) { f.send(message{Line: &l}) }

// Finish reports that the log is complete, and waits until the lead has judged it.
func (f *Follower) Finish(ctx context.Context) error {
	f.send(message{Finished: true})
	return f.await(ctx, func() bool { return f.over != nil })
}

var _ load.Joint = (*Follower)(nil)
