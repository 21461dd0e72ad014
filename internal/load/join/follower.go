package join

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

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
	id     string
	client *http.Client
	base   time.Time // of its clock
	end    context.CancelCauseFunc
	silent *time.Timer
	both   sync.WaitGroup // reader, lines and signs of life

	monitor
	welcome    *welcome
	plan       *followerPart
	identities []identity
	prepare    bool
	connect    bool
	begin      *time.Duration
	over       *over
	clock      clock
	score      func(time.Duration, []plan.Part) error
	renamed    func(int, string)
	lines      []observe.Line // not sent yet
}

// Dial joins the run of a token. The part is to be played within Context: it ends with ctx, and when the run ends for all.
// The caller closes the follower.
func Dial(ctx context.Context, token Token) (*Follower, error) {
	f := &Follower{token: token, id: rand.Text(), base: time.Now(), monitor: monitor{changed: make(chan struct{})},
		client: &http.Client{Transport: &http.Transport{DialContext: (&net.Dialer{Timeout: silence}).DialContext, TLSClientConfig: pinned(token.Sum), TLSHandshakeTimeout: silence, ResponseHeaderTimeout: silence, ForceAttemptHTTP2: true}},
		score:  func(time.Duration, []plan.Part) error { return nil }, renamed: func(int, string) {}}
	f.ctx, f.end = context.WithCancelCause(ctx)
	stream, closeStream := context.WithCancel(context.WithoutCancel(ctx)) // it outlives the report of a failure
	response, err := f.request(stream, http.MethodPost, "/join", hello{Version: Version, Build: version.Get().Version, Name: hostname(), Machine: machineID(), ID: f.id})
	if err != nil {
		closeStream()
		f.end(err)
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
	f.silent = time.AfterFunc(silence, func() { f.lose(errSilent) })
	context.AfterFunc(f.ctx, func() {
		f.sayWhy()
		closeStream()
	})
	f.both.Go(func() { f.read(response.Body) })
	f.both.Go(f.live)
	f.both.Go(f.sendLines)
	return f, nil
}

// request sends one request to the lead. The caller closes the body of the response.
func (f *Follower) request(ctx context.Context, method, path string, body any) (*http.Response, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encode a message to the loader that leads: %w", err)
	}
	if len(data) > mostMessage {
		return nil, model.Errorf(model.TooLarge, "a message of %d bytes to the loader that leads: at most %d are allowed", len(data), mostMessage)
	}
	r, err := http.NewRequestWithContext(ctx, method, "https://"+f.token.Address+path, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", f.token.authorization())
	r.Header.Set(loaderHeader, f.id)
	response, err := f.client.Do(r)
	if err != nil || response.StatusCode/100 == 2 {
		return response, err
	}
	defer response.Body.Close()
	if refused := decodeFailure(response.Body); refused != nil {
		return nil, refused.from("")
	}
	return nil, fmt.Errorf("%s %s: %s", method, path, response.Status)
}

// send reports a message. An error ends the part.
func (f *Follower) send(m message) error {
	response, err := f.request(f.ctx, http.MethodPost, "/report", m)
	if err != nil {
		if f.ctx.Err() != nil {
			return context.Cause(f.ctx)
		}
		f.lose(err)
		return err
	}
	return response.Body.Close()
}

// Context ends when the run cannot go on; its cause is the reason.
func (f *Follower) Context() context.Context { return f.ctx }

// Number waits until all have joined, and returns the number of this loader.
func (f *Follower) Number() (number, of int, err error) {
	var w *welcome // each order writes the field of the follower
	if err := f.await(f.ctx, func() bool { w = f.welcome; return w != nil }); err != nil {
		return 0, 0, err
	}
	return w.Number, w.Of, nil
}

// Plan waits for the part to play.
func (f *Follower) Plan() (load.Config, error) {
	var p *followerPart
	var identities []identity
	if err := f.await(f.ctx, func() bool { p, identities = f.plan, f.identities; return f.prepare && p != nil }); err != nil {
		return load.Config{}, err
	}
	c, err := p.config(identities)
	c.Joint = f
	return c, err
}

// Stop asks for the end of the present phase: the lead judges the run until then.
func (f *Follower) Stop() { _ = f.send(message{Stop: true}) }

// Stopped reports whether the run was stopped and nothing else is wrong.
func (f *Follower) Stopped() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.over != nil && f.over.Stopped
}

// Verdict returns the verdict of the lead; ok means that the run passed.
func (f *Follower) Verdict() (sentences []string, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over == nil {
		return nil, false
	}
	return f.over.Verdict, f.over.OK
}

// Close leaves the run. The lead receives err as the reason why this part was not played to its end.
func (f *Follower) Close(err error) {
	f.end(cmp.Or(err, error(model.Errorf(model.Unavailable, "it has left"))))
	f.both.Wait()
	f.client.CloseIdleConnections()
}

// sayWhy reports to the lead why this part ended before the run was over. The lead may be gone.
func (f *Follower) sayWhy() {
	f.mu.Lock()
	over := f.over
	f.mu.Unlock()
	if over == nil {
		ctx, cancel := context.WithTimeout(context.Background(), silence)
		defer cancel()
		if response, err := f.request(ctx, http.MethodPost, "/report", message{Failed: newFailure(causeOf(f.ctx, "it"))}); err == nil {
			_ = response.Body.Close()
		}
	}
}

// lose ends the part because of the lead, unless the run is over.
func (f *Follower) lose(err error) {
	f.mu.Lock()
	over := f.over
	f.mu.Unlock()
	var own *model.Error
	switch {
	case over != nil:
	case errors.As(err, &own) && own.Class != model.Unavailable:
		f.end(own)
	default:
		f.end(model.Errorf(model.Unavailable, "the loader that leads was lost: %s", lossOf(err)).WithHint("the run is over; the lead prints the reason"))
	}
}

// live reports signs of life until the run ends.
func (f *Follower) live() {
	alive := time.NewTicker(aliveEvery)
	defer alive.Stop()
	for {
		select {
		case <-f.ctx.Done():
			return
		case <-alive.C:
			_ = f.send(message{})
		}
	}
}

// read reads orders until the lead ends the stream.
func (f *Follower) read(stream io.ReadCloser) {
	defer f.silent.Stop()
	defer stream.Close()
	limited := &io.LimitedReader{R: stream}
	for in := json.NewDecoder(limited); ; {
		var o order
		limited.N = mostMessage
		if err := in.Decode(&o); err != nil {
			if limited.N == 0 {
				err = model.Errorf(model.TooLarge, "an order of the loader that leads of more than %d bytes", mostMessage)
			}
			f.lose(err)
			return
		}
		f.silent.Reset(silence)
		if err := f.take(&o); err != nil {
			f.end(err)
			return
		}
	}
}

// take carries out an order, or stores it.
func (f *Follower) take(o *order) error {
	switch {
	case o.Failed != nil:
		return o.Failed.from("")
	case o.Welcome != nil:
		if err := f.setClock(); err != nil {
			return err
		}
	case o.Score != nil:
		score, _ := f.callees()
		return score(o.Score.From, o.Score.Spans)
	case o.Renamed != nil:
		_, renamed := f.callees()
		renamed(o.Renamed.Member, o.Renamed.Name)
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	defer f.change()
	f.welcome, f.plan, f.begin, f.over = cmp.Or(o.Welcome, f.welcome), cmp.Or(o.Plan, f.plan), cmp.Or(o.Begin, f.begin), cmp.Or(o.Over, f.over)
	f.prepare, f.connect = f.prepare || o.Prepare, f.connect || o.Connect
	if f.identities = append(f.identities, o.Identities...); len(f.identities) > mostAgents {
		return model.Errorf(model.TooLarge, "more keys than agents")
	}
	return nil
}

// callees returns the functions that carry out orders, once Hear has set them.
func (f *Follower) callees() (func(time.Duration, []plan.Part) error, func(int, string)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.score, f.renamed
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

// setClock compares the clocks, and reports the uncertainty.
func (f *Follower) setClock() error {
	const times = 10
	var best clock
	for range times {
		asked := time.Since(f.base)
		response, err := f.request(f.ctx, http.MethodGet, "/clock", nil)
		if err != nil {
			return err
		}
		var theirs time.Duration
		err = json.NewDecoder(response.Body).Decode(&theirs)
		answered := time.Since(f.base)
		_, _ = io.Copy(io.Discard, response.Body) // the connection serves the next request
		_ = response.Body.Close()
		if err != nil {
			return fmt.Errorf("read the clock of the loader that leads: %w", err)
		}
		best = best.nearer(comparison(asked, answered, theirs))
	}
	f.mu.Lock()
	f.clock = best
	f.mu.Unlock()
	return f.send(message{Clock: &best.within})
}

// Connect reports the hash of the plan that would be played, and waits until agents are to connect.
func (f *Follower) Connect(ctx context.Context, hash string) error {
	if err := f.send(message{Prepared: &hash}); err != nil {
		return err
	}
	return f.await(ctx, func() bool { return f.connect })
}

// Ready reports that all agents have their checks.
func (f *Follower) Ready(_ context.Context, own load.Arrived) ([]load.Joined, error) {
	if err := f.setClock(); err != nil {
		return nil, err
	}
	return nil, f.send(message{Arrived: &own})
}

// Begin waits for the beginning of the timetable.
func (f *Follower) Begin(ctx context.Context) (time.Time, error) {
	var at *time.Duration
	var ahead time.Duration
	if err := f.await(ctx, func() bool { at, ahead = f.begin, f.clock.ahead; return at != nil }); err != nil {
		return time.Time{}, err
	}
	return f.base.Add(*at - ahead), nil
}

// Hear sets the functions that carry out orders; they are called one at a time.
func (f *Follower) Hear(score func(time.Duration, []plan.Part) error, renamed func(int, string)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.score, f.renamed = score, renamed
}

// Line queues a line of the log for the lead. A log has a few lines each second and, in the end, one for each agent.
func (f *Follower) Line(l observe.Line) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lines = append(f.lines, l)
	f.change()
}

// batchLines bounds the lines of one message.
const batchLines = 500

// sendLines reports the lines in order, until the run ends.
func (f *Follower) sendLines() {
	for {
		if f.await(f.ctx, func() bool { return len(f.lines) > 0 }) != nil {
			return
		}
		f.mu.Lock()
		batch := f.lines[:min(batchLines, len(f.lines))]
		f.mu.Unlock()
		if f.send(message{Lines: batch}) != nil {
			return
		}
		f.mu.Lock()
		f.lines = f.lines[len(batch):]
		f.change()
		f.mu.Unlock()
	}
}

// Finish reports that the log is complete, and waits until the lead has judged it.
func (f *Follower) Finish(ctx context.Context) error {
	if err := f.await(ctx, func() bool { return len(f.lines) == 0 }); err != nil {
		return err
	}
	if err := f.send(message{Finished: true}); err != nil {
		return err
	}
	return f.await(ctx, func() bool { return f.over != nil })
}

var _ load.Joint = (*Follower)(nil)
