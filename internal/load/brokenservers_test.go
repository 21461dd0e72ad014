package load_test

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

const (
	brokenAgents = 10
	brokenChecks = 10
)

// trial is a small run against a machine.
type trial struct {
	name   string
	m      *machine
	change func(*load.Config)
	judge  func(t *testing.T, rep *report.Report)
}

// all plays the trials beside each other: they mostly wait.
func all(t *testing.T, trials []trial) {
	t.Helper()
	reports, errs := make([]*report.Report, len(trials)), make([]error, len(trials))
	var playing sync.WaitGroup
	for i, x := range trials {
		playing.Go(func() { reports[i], errs[i] = x.play(t.Context()) })
	}
	playing.Wait()
	for i, x := range trials {
		t.Run(x.name, func(t *testing.T) {
			if errs[i] != nil {
				t.Fatal(errs[i])
			}
			x.judge(t, reports[i])
		})
	}
}

func (x *trial) play(ctx context.Context) (*report.Report, error) {
	m := x.m
	cfg := load.Config{Server: m.addr, Scenario: broken(), MaxLag: time.Minute, Before: m, Control: m}
	x.change(&cfg)
	return load.Run(ctx, cfg)
}

func broken() *scenario.Scenario {
	return scenario.Uniform{Agents: brokenAgents, Checks: brokenChecks, Interval: 250 * time.Millisecond, Linger: 20 * time.Millisecond,
		Steady: time.Second, Warmup: 100 * time.Millisecond, Drain: 20 * time.Second, Changes: 0.02}.Scenario()
}

func options() pathOptions { return pathOptions{scenario: broken()} }

// halfway is a fault of the server in the middle.
func halfway(server string) []scenario.Fault {
	return []scenario.Fault{{At: model.Duration(500 * time.Millisecond), Server: server}}
}

// replaced makes a lie of a change to one batch.
func replaced(always bool, change func(node uint32, b *wire.Batch) []*wire.Batch) *lie {
	return &lie{sessions: func(j journal.Journal, _ <-chan struct{}) journal.Journal {
		return &once{Journal: j, change: change, always: always}
	}}
}

// middling is a batch from the middle of a run: with a result, and others before it.
func middling(b *wire.Batch) (result int) {
	if b.First < 15 {
		return -1
	}
	for i := range b.Signals {
		if b.Signals[i].Kind == wire.SignalResult {
			return i
		}
	}
	return -1
}

// Each of these servers does one thing wrong, most of them once in the run, and the
// verdict says what, with the node and the number.
func TestBrokenServersAreCaught(t *testing.T) {
	lives := 0
	eagerly := &lie{sessions: func(j journal.Journal, dead <-chan struct{}) journal.Journal {
		lives++
		return &eager{Journal: j, dead: dead, hoards: lives == 1}
	}}
	carelessly := &lie{disk: func(fs disk.FS) disk.FS { return cached{fs} }}
	var trials []trial
	for _, c := range []struct {
		name  string
		lie   *lie
		crash bool // in the middle; kept is of what was written and not synced, in percent
		kept  int
		want  string
	}{
		{name: "acknowledges before it commits, and is killed", lie: eagerly, crash: true, kept: 100, want: "acknowledgements taken back"},
		{name: "acknowledges between write and fsync, and power is lost", lie: carelessly, crash: true, want: "acknowledgements taken back"},
		{name: "gives a batch the numbers of the one before", want: "acknowledged and lost",
			lie: replaced(false, func(_ uint32, b *wire.Batch) []*wire.Batch {
				if middling(b) < 0 {
					return nil
				}
				b.First -= uint64(len(b.Signals))
				return []*wire.Batch{b}
			})},
		{name: "applies one batch twice", want: "applied more often than acknowledged",
			lie: replaced(false, func(_ uint32, b *wire.Batch) []*wire.Batch {
				if middling(b) < 0 {
					return nil
				}
				again := *b
				again.Stream, again.First = 77, 1
				return []*wire.Batch{&again, b}
			})},
		{name: "drops one result of all", want: "1 acknowledged and lost",
			lie: replaced(false, func(_ uint32, b *wire.Batch) []*wire.Batch {
				i := middling(b)
				if i < 0 {
					return nil
				}
				b.Signals[i] = wire.Signal{Kind: wire.SignalKeepalive, AtMs: b.NowMs}
				return []*wire.Batch{b}
			})},
		{name: "drops one result and applies the next one of its state twice", want: "1 with other results or in another order",
			lie: aside(func(_ wire.Signal, b *wire.Batch, next wire.Signal) []*wire.Batch {
				return []*wire.Batch{alone(next, b), b}
			})},
		{name: "applies two results of one state in the wrong order", want: "1 with other results or in another order",
			lie: aside(func(missed wire.Signal, b *wire.Batch, _ wire.Signal) []*wire.Batch {
				return []*wire.Batch{b, alone(missed, b)}
			})},
		{name: "keeps other words than one state's", want: "1 with another status or output",
			lie: replaced(true, func(node uint32, b *wire.Batch) []*wire.Batch {
				changed := false
				for i := range b.Signals {
					if s := &b.Signals[i]; node == firstNode+3 && s.Definition == 104 {
						r, err := s.Result()
						if err != nil {
							panic(err)
						}
						r.Output, changed = []byte("all is well"), true
						*s = wire.ResultSignal(*s, r)
					}
				}
				if !changed {
					return nil
				}
				return []*wire.Batch{b}
			})},
		{name: "acknowledges numbers that were never sent", want: "acknowledged without having been sent",
			lie: &lie{sessions: func(j journal.Journal, _ <-chan struct{}) journal.Journal { return &ahead{Journal: j} }}},
	} {
		m := newMachine(t, options(), c.lie)
		trials = append(trials, trial{c.name, m, func(cfg *load.Config) {
			cfg.Scenario.Phases[1].Drain = model.Duration(time.Second) // a stream that is behind never catches up
			if m.kept = c.kept; c.crash {
				cfg.Scenario.Faults = halfway("kill")
			}
		}, func(t *testing.T, rep *report.Report) {
			verdict := strings.Join(rep.Verdict, "\n")
			t.Log(verdict)
			if rep.OK() || !strings.Contains(verdict, c.want) || !strings.Contains(verdict, "node load-000") || !strings.Contains(verdict, " number ") {
				t.Errorf("verdict %q, want one with %q, the node and the number; %+v", verdict, c.want, rep.Balance)
			}
		}})
	}
	all(t, trials)
}

// large makes every seventh result of check 2 larger than the server takes.
type large struct{}

func (large) Status(_, _ int, _ *model.CheckDefinition, seq uint64, _ model.Status, _ bool) model.Status {
	return model.Status(seq % 3)
}

func (large) Output(dst []byte, _, c int, _ *model.CheckDefinition, seq uint64, _ model.Status) []byte {
	size := 60
	if c == 2 && seq%7 == 0 { // numbers of one check share factors with the fleet
		size = 300
	}
	return append(dst, bytes.Repeat([]byte{'a' + byte(seq%26)}, size)...)
}

// A server that does what it should is not accused, whatever befalls it.
func TestSoundServerIsNotAccused(t *testing.T) {
	if testing.Short() {
		t.Skip("short: six runs of a second or two")
	}
	refusing := options()
	refusing.outputBytes = 200
	var trials []trial
	for _, c := range []struct {
		name    string
		options pathOptions
		server  string // the fault of the server in the middle
		kept    int    // as of machine
		away    time.Duration
		change  func(*load.Config)
		check   func(t *testing.T, rep *report.Report)
	}{
		{name: "a storm", change: func(c *load.Config) {
			c.Scenario.Faults = []scenario.Fault{{At: model.Duration(500 * time.Millisecond), Cut: &scenario.Pick{}}}
		}},
		{name: "restarted", server: "restart"},
		{name: "killed", server: "kill", kept: 100, away: 100 * time.Millisecond},
		{name: "power lost", server: "kill", kept: 0, away: 100 * time.Millisecond},
		{name: "half of the rest written", server: "kill", kept: 50, away: 100 * time.Millisecond},
		{name: "refuses some, and power is lost", options: refusing, change: func(c *load.Config) { c.Generate = large{} },
			server: "kill", kept: 0, away: 100 * time.Millisecond,
			check: func(t *testing.T, rep *report.Report) {
				if rep.Balance.Refused == 0 {
					t.Errorf("nothing was refused: %+v", rep.Balance)
				}
			}},
		{name: "spools overflow", change: func(c *load.Config) { c.Spool = 2000 },
			server: "kill", kept: 0, away: 800 * time.Millisecond,
			check: func(t *testing.T, rep *report.Report) {
				if rep.SpoolFull == 0 {
					t.Error("no spool was full")
				}
			}},
	} {
		o := c.options
		if o.scenario == nil {
			o = options()
		}
		m := newMachine(t, o, nil)
		m.kept, m.away = c.kept, c.away
		trials = append(trials, trial{c.name, m, func(cfg *load.Config) {
			if c.change != nil {
				c.change(cfg)
			}
			if c.server != "" {
				cfg.Scenario.Faults = halfway(c.server)
			}
		}, func(t *testing.T, rep *report.Report) {
			least := brokenAgents * brokenChecks
			if c.options.outputBytes > 0 {
				least -= brokenAgents // of a check whose results are refused there may be none
			}
			passes := rep.Balance.Refused+rep.SpoolFull == 0 // such a run fails, and loses nothing
			if rep.OK() != passes || rep.Lost() || rep.Balance.Compared < least {
				t.Errorf("%q, %+v", rep.Verdict, rep.Balance)
			}
			if b := rep.Balance; b.Ordered == 0 || b.Ordered < b.Compared && b.Refused == 0 {
				t.Errorf("the order of %d of %d states was compared: %s", b.Ordered, b.Compared, b.OrderNotCompared())
			}
			if c.check != nil {
				c.check(t, rep)
			}
		}})
	}
	all(t, trials)
}
