package loadcmd

import (
	"context"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/model"
)

// stops hears signals (Ctrl-C, SIGTERM, a terminal that is closed). The first ends the run's present
// phase, and what was played becomes a report; where nothing is played yet, it ends all. Once the
// timetable is over it ends nothing, but no other run begins. The second ends all at once. Safe for any
// goroutine.
type stops struct {
	say     func(format string, args ...any)
	asked   chan string // of the run, see load.Config.Stop
	end     context.CancelCauseFunc
	release func()

	mu      sync.Mutex
	at      progress
	times   int
	awaited bool             // the first signal left what was played to its report
	tell    func(who string) // that the run is to be stopped
}

// progress is how far a run is.
type progress uint8

const (
	before  progress = iota // nothing was sent, or there is no run
	playing                 // its timetable
	played                  // drain, ledger and report come
)

// oneSignal is within which time a signal that comes again is the same one: timeout(1) sends each to
// the process and to its group. Whoever goes on for longer means it.
const oneSignal = time.Second

// heedSignals has the command end as its signals say. The context is what it is to work within;
// the caller calls release.
func heedSignals(cmd *cobra.Command, say func(format string, args ...any)) (context.Context, *stops) {
	ctx, end := context.WithCancelCause(context.WithoutCancel(cmd.Context()))
	s := &stops{say: say, asked: make(chan string, 1), end: end}
	s.tell = func(who string) { s.asked <- who }
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	over := make(chan struct{})
	ended := cmd.Context().Done() // by a signal that is heard here too, or by a caller that sends none
	go func() {
		for heard, last := 0, (time.Time{}); ; {
			select {
			case <-over:
				return
			case <-ended:
				ended = nil
				s.atLeast(1, "")
			case <-signals:
				if time.Since(last) > oneSignal {
					heard, last = heard+1, time.Now()
				}
				s.atLeast(heard, "")
			}
		}
	}()
	s.release = sync.OnceFunc(func() {
		signal.Stop(signals)
		close(over)
		end(nil)
	})
	return ctx, s
}

// instead has the first signal tell the loader that leads, which ends the run for all.
func (s *stops) instead(tell func()) {
	s.mu.Lock()
	s.at, s.tell = playing, func(string) { tell() }
	s.mu.Unlock()
}

// ask is a first signal from another loader.
func (s *stops) ask(who string) { s.atLeast(1, who) }

// atLeast acts upon so many signals, where they were fewer before.
func (s *stops) atLeast(times int, who string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if times <= s.times {
		return
	}
	s.times = times
	by := ""
	if who != "" {
		by = " by " + who
	}
	if times > 1 || s.at == before {
		s.end(model.Errorf(model.Unavailable, "stopped%s", by))
		return
	}
	if s.awaited = true; s.at == played {
		s.say("stopped%s: the run is over already, and its ledger and report come; Ctrl-C again ends at once, without them", by)
		return
	}
	s.say("stopped%s: the present phase ends here, then come ledger and report; Ctrl-C again ends at once, without them", by)
	s.tell(who)
}

// heed lets a run be stopped once its timetable has begun, until the func that it returns is called;
// what is said of that is written where the run is seen.
func (s *stops) heed(c *load.Config, seen io.Writer) (over func()) {
	if s == nil {
		return func() {}
	}
	s.mu.Lock()
	s.say = sayTo(seen)
	s.mu.Unlock()
	c.Stop, c.Begun, c.Played = s.asked, func() { s.reach(playing) }, func() { s.reach(played) }
	return func() {
		s.reach(before)
		select {
		case <-s.asked: // too late for this run, and not meant for another
		default:
		}
	}
}

func (s *stops) reach(at progress) {
	s.mu.Lock()
	s.at = at
	s.mu.Unlock()
}

// next is the error that ends a row of runs before one of them: nil where nobody asked for that. Where
// all was ended at once, the run that comes says so itself.
func (s *stops) next(name string) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.awaited || s.times > 1 {
		return nil
	}
	return &failed{model.Errorf(model.Unavailable, "stopped before %s was played", name), exitStopped}
}

// stopped says whether anybody asked.
func (s *stops) stopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.times > 0
}

// because makes the error of a command that was stopped one that says so.
func (s *stops) because(err error) error {
	if err == nil || s == nil || !s.stopped() {
		return err
	}
	if _, known := err.(*failed); known { // it has a report, which says it
		return err
	}
	return &failed{model.Errorf(model.Unavailable, "stopped, and there is no report"), exitEnded}
}
