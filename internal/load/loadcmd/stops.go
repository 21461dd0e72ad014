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

// stops ends runs at signals (Ctrl-C, SIGTERM, a closed terminal). The first signal ends the run's present phase, and the
// played part gets its report; before the timetable it ends the command. After the timetable it ends nothing, but no other
// run begins. The second signal ends the command at once. Safe for any goroutine.
type stops struct {
	say     func(format string, args ...any)
	stop    chan string // of the run, see load.Config.Stop
	end     context.CancelCauseFunc
	release func()

	mu       sync.Mutex
	at       progress
	signals  int
	reported bool // the first signal left the run to its report
	stopRun  func(by string)
}

// progress is the progress of a run.
type progress uint8

const (
	before  progress = iota // there is no run, or it has sent nothing
	playing                 // its timetable
	played                  // drain, ledger and report follow
)

// oneSignal is the shortest time between two signals of a person: timeout(1) signals the process and its group at once.
const oneSignal = time.Second

// catchSignals ends the command at signals. The command works within the context; the caller calls release.
func catchSignals(cmd *cobra.Command, say func(format string, args ...any)) (context.Context, *stops) {
	ctx, end := context.WithCancelCause(context.WithoutCancel(cmd.Context()))
	s := &stops{say: say, stop: make(chan string, 1), end: end}
	s.stopRun = func(by string) { s.stop <- by }
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	over := make(chan struct{})
	ended := cmd.Context().Done() // by one of these signals, or by a caller
	go func() {
		for n, last := 0, (time.Time{}); ; {
			select {
			case <-over:
				return
			case <-ended:
				ended = nil
				s.signal(1, "")
			case <-signals:
				if time.Since(last) > oneSignal {
					n, last = n+1, time.Now()
				}
				s.signal(n, "")
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

// forward passes the first signal to the leading loader. The leading loader ends the run for all.
func (s *stops) forward(stop func()) {
	s.mu.Lock()
	s.at, s.stopRun = playing, func(string) { stop() }
	s.mu.Unlock()
}

// signal acts upon the n-th signal. by names the loader that got the signal; empty means this one.
func (s *stops) signal(n int, by string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n <= s.signals {
		return
	}
	s.signals = n
	whom := ""
	if by != "" {
		whom = " by " + by
	}
	switch {
	case n > 1 || s.at == before:
		s.end(model.Errorf(model.Unavailable, "stopped%s", whom))
	case s.at == played:
		s.reported = true
		s.say("stopped%s: the run is over already, and its ledger and report come; Ctrl-C again ends at once, without them", whom)
	default:
		s.reported = true
		s.say("stopped%s: the present phase ends here, then come ledger and report; Ctrl-C again ends at once, without them", whom)
		s.stopRun(by)
	}
}

// attach lets signals stop a run from the beginning of its timetable until the caller calls detach. seen shows the run,
// and what signals do.
func (s *stops) attach(c *load.Config, seen io.Writer) (detach func()) {
	if s == nil {
		return func() {}
	}
	s.mu.Lock()
	s.say = sayTo(seen)
	s.mu.Unlock()
	c.Stop, c.Begun, c.Played = s.stop, func() { s.reach(playing) }, func() { s.reach(played) }
	return func() {
		s.reach(before)
		select {
		case <-s.stop: // too late for this run, and not for another
		default:
		}
	}
}

// reach records the progress of a run.
func (s *stops) reach(at progress) {
	s.mu.Lock()
	s.at = at
	s.mu.Unlock()
}

// next returns the error that ends a series before one of its runs; nil without a signal, and where the run itself
// ends.
func (s *stops) next(name string) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.reported || s.signals > 1 {
		return nil
	}
	return &failed{model.Errorf(model.Unavailable, "stopped before %s was played", name), exitStopped}
}

// stopped reports whether there was a signal.
func (s *stops) stopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.signals > 0
}

// explain replaces the error of a command that signals ended without a report.
func (s *stops) explain(err error) error {
	if err == nil || s == nil || !s.stopped() {
		return err
	}
	if _, known := err.(*failed); known { // its report says so
		return err
	}
	return &failed{model.Errorf(model.Unavailable, "stopped, and there is no report"), exitEnded}
}
