package sensu

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/load/outputs"
	"github.com/muster-fleet/muster/internal/load/play"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/sensu/about"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuwire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// Target is one or more Sensu Go backends that a scenario is played against.
type Target struct {
	sc       *scenario.Scenario
	options  Options
	shared   wsconn.Options // of all agents
	api      Backend
	agents   []*agent
	checks   []map[string]spoken // of each class, by name
	baseline map[state]held      // of our checks, when the run began
	observe  func(intended, due, left time.Time)

	mu  sync.Mutex
	sum report.Totals
}

// Options tell how agents come to the backends.
type Options struct {
	Backends  []string // ws://host:port or wss://host:port, of the agents' listeners
	User      string
	Password  string
	Namespace string
	JSON      bool        // ask for JSON; default protobuf, as agents do
	TLS       *tls.Config // of wss; nil: the system's authorities
}

// spoken generates the results of a check.
type spoken struct {
	number   int // in its class
	interval time.Duration
	says     outputs.Generator
}

// Backend is a system that Sensu agents connect to: a Sensu backend (API), or a Muster server (Bridge).
type Backend interface {
	version(ctx context.Context) (string, error)
	put(ctx context.Context, c *check) error
	remove(ctx context.Context, name string) error
	// events calls f with every event of a check.
	events(ctx context.Context, f func(state, held)) error
}

// check is a check of the scenario as the backend has it.
type check struct {
	name          string
	subscriptions []string
	interval, ttl int // s
}

// New returns the target of a scenario.
func New(sc *scenario.Scenario, o Options, api Backend) (*Target, error) {
	t := &Target{sc: sc, options: o, api: api, checks: make([]map[string]spoken, len(sc.Agents)),
		shared: wsconn.Options{Timeout: writeTimeout, Buffers: &wsconn.Buffers{}}}
	for c := range sc.Agents {
		t.checks[c] = map[string]spoken{}
		if k := sc.Agents[c].Keepalive; k != nil && (time.Duration(k.Interval)%time.Second != 0 || time.Duration(k.Timeout)%time.Second != 0) {
			return nil, model.Errorf(model.Unsupported, "class %s: keepalives every %s, missed after %s: Sensu has whole seconds", sc.Agents[c].Name, k.Interval, k.Timeout)
		}
		for _, check := range sc.Held(&sc.Agents[c]) {
			if d := time.Duration(check.Interval); d%time.Second != 0 {
				return nil, model.Errorf(model.Unsupported, "check %s of class %s: an interval of %s: Sensu has whole seconds", check.Name, sc.Agents[c].Name, d)
			}
			for i := range max(1, check.Count) {
				t.checks[c][check.FullName(i)] = spoken{len(t.checks[c]), time.Duration(check.Interval), outputs.Of(sc, c, check.Check)}
			}
		}
	}
	return t, nil
}

// Name returns the name of the target.
func (t *Target) Name() string { return about.Name }

// Secured reports whether all agents connect by TLS.
func (t *Target) Secured() bool {
	return !slices.ContainsFunc(t.options.Backends, func(to string) bool { return !strings.HasPrefix(to, "wss:") })
}

// subscription returns the subscription of a group's agents.
func subscription(group string) string { return "load-" + group }

// subscriptions returns the subscriptions of some groups.
func subscriptions(groups []string) (list []string) {
	for _, g := range groups {
		list = append(list, subscription(g))
	}
	return list
}

// Prepare creates the scenario's checks, and reads the backend's present events, from which a second run continues.
func (t *Target) Prepare(ctx context.Context) (string, error) {
	version, err := t.api.version(ctx)
	if err != nil {
		return "", err
	}
	if t.baseline, err = t.held(ctx); err != nil {
		return "", err
	}
	for _, declared := range t.sc.Placed() {
		for i := range max(1, declared.Count) {
			c := check{declared.FullName(i), subscriptions(declared.Groups), int(time.Duration(declared.Interval) / time.Second), int(time.Duration(declared.TTL) / time.Second)}
			if err := t.api.put(ctx, &c); err != nil {
				return "", err
			}
		}
	}
	return version, nil
}

// Agents returns the scenario's agents.
func (t *Target) Agents(observe func(intended, due, left time.Time)) (list []play.TargetAgent) {
	t.observe = observe
	for _, m := range simulated.Members(t.sc) {
		class := &t.sc.Agents[m.Class]
		entity := sensuwire.Entity{Name: m.Name, Subscriptions: t.listensTo(class), Labels: simulated.MemberLabels(class, m.Number)}
		a := t.newAgent(entity, len(list))
		a.class = m.Class
		if k := class.Keepalive; k != nil {
			a.keepalive, a.warning = cmp.Or(time.Duration(k.Interval), a.keepalive), cmp.Or(time.Duration(k.Timeout), a.warning)
		}
		t.agents, list = append(t.agents, a), append(list, a)
	}
	return list
}

// listensTo returns the subscriptions of a class's agents: those of its groups, and the one for all agents if a check
// needs it.
func (t *Target) listensTo(class *scenario.Class) []string {
	list := subscriptions(append([]string{class.Name}, class.Groups...))
	if t.sc.TargetsAll() {
		list = append(list, subscription(scenario.AllGroup))
	}
	return list
}

// answer returns the status and output of a check on an agent.
func (t *Target) answer(a *agent, check string, e *entry) (uint32, string) {
	k, ok := t.checks[a.class][check]
	if !ok {
		return 3, "UNKNOWN - no check of this run"
	}
	status := k.says.Status(a.number, k.number, nil, uint64(e.sent), model.Status(e.status), e.written == 0)
	return uint32(status), string(k.says.Output(nil, a.number, k.number, nil, uint64(e.sent), status))
}

// count changes the totals. Its lock is taken under the agents'.
func (t *Target) count(change func(sum *report.Totals)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change(&t.sum)
}

// Totals returns the totals of all agents.
func (t *Target) Totals() (sum report.Totals) {
	t.count(func(now *report.Totals) { sum = *now })
	return sum
}

// Compare compares the API's events with the ledgers: for each entity and check the time and status of the last event,
// and the number in a row with that status. An agent that never changes its status has all of its events in that
// number.
func (t *Target) Compare(ctx context.Context, differ func(report.Imbalance, string)) (states int, kept uint64, err error) {
	now, err := t.held(ctx)
	if err != nil {
		return 0, 0, err
	}
	for _, a := range t.agents {
		a.mu.Lock()
		for check, e := range a.ledger {
			if e.written == 0 {
				continue
			}
			states++
			name, number := a.entity.Name, uint64(e.written)
			lost, problem := t.compare(state{name, check}, e, now)
			if kept += number - uint64(lost); problem != "" {
				differ(report.Imbalance{Name: name, CheckName: check, Number: number, Kind: "not as they were sent"}, check+": "+problem)
			}
		}
		a.mu.Unlock()
	}
	return states, kept, nil
}

// compare returns how many events of a check the backend lacks at least, and what differs; empty: nothing.
func (t *Target) compare(s state, e *entry, now map[state]held) (lost uint32, problem string) {
	before, got, want := t.baseline[s], now[s], held{e.executed, e.status, e.row}
	if got.executed == 0 { // the backend does not tell the time, or has no event
		want.executed = 0
	}
	if e.row == e.written && before.occurrences > 0 && before.status == e.status {
		want.occurrences += before.occurrences
	}
	if got == want {
		return 0, ""
	}
	lost = min(want.occurrences-min(got.occurrences, want.occurrences), e.row)
	if got.executed != want.executed || got.status != want.status {
		lost = max(lost, 1)
	}
	if got == (held{}) {
		return lost, "the backend has no such event"
	}
	return lost, fmt.Sprintf("the backend holds %s, and %s was sent", got, want)
}

// Clean deletes the checks, because no agent is left to run them. Entities and events stay.
func (t *Target) Clean(ctx context.Context) error {
	for _, declared := range t.sc.Placed() {
		for i := range max(1, declared.Count) {
			if err := t.api.remove(ctx, declared.FullName(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// state identifies an event.
type state struct{ entity, check string }

// held holds the last event of a check in the backend.
type held struct {
	executed    int64 // s since 1970; 0: not told
	status      uint32
	occurrences uint32 // in a row with that status
}

func (h held) String() string {
	return fmt.Sprintf("status %d, %d in a row, the last of %d", h.status, h.occurrences, h.executed)
}

// held reads the events of the scenario's checks.
func (t *Target) held(ctx context.Context) (map[state]held, error) {
	list := map[state]held{}
	err := t.api.events(ctx, func(s state, h held) {
		if t.ours(s.check) {
			list[s] = h
		}
	})
	return list, err
}

// ours reports whether the run created a check.
func (t *Target) ours(name string) bool {
	return slices.ContainsFunc(t.checks, func(of map[string]spoken) bool { return of[name].says != nil })
}
