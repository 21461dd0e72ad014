package loadcmd

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/live"
	"github.com/muster-fleet/muster/internal/load/people"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/load/subject"
)

// short is the short form of a run: so many agents, all alike, without a file, against a
// server that runs and was prepared.
type short struct {
	withTLS bool
	halfway string
	pages   int
}

// shape are the flags that a scenario replaces.
func (s *short) shape(f *pflag.FlagSet, c *load.Config) {
	f.IntVar(&c.Agents, "agents", 100, "agent sessions")
	f.IntVar(&c.Fleet, "fleet", 0, "nodes that send every check once before, in rounds of --agents; the last round stays and is measured. 0: --agents")
	f.IntVar(&c.First, "first", 0, "number of the first agent, where several loaders share a fleet")
	f.IntVar(&c.Checks, "checks", 40, "checks of each agent")
	f.DurationVar(&c.Interval, "interval", 5*time.Second, "interval of every check")
	f.Float64Var(&c.Rate, "rate", 0, "results per second of all agents; replaces --interval")
	f.IntVar(&c.PerFrame, "per-frame", 0, "results that fill a frame; 0: frames leave when their linger is over")
	f.DurationVar(&c.Linger, "linger", 500*time.Millisecond, "how long a result may wait for company")
	f.IntVar(&c.Output, "output-bytes", 100, "length of each output; all differ")
	f.Float64Var(&c.Changes, "status-changes", 0.02, "share of results that change the status; those leave at once")
	f.DurationVar(&c.Duration, "duration", time.Minute, "measured time")
	f.DurationVar(&c.Warmup, "warmup", 5*time.Second, "time before it that is not measured")
	f.BoolVar(&c.Storm, "reconnect-storm", false, "cut all sessions at once, in the middle, and time until all are back")
	f.StringVar(&s.halfway, "halfway", "", "a shell command for the middle of the run that ends and starts the server, and returns; times are taken from its beginning")
	f.IntVar(&s.pages, "pages", 0, "requests for each kind of page of events while results flow; needs a session: muster login")
	f.BoolVar(&s.withTLS, "tls", false, "mutual TLS with certificates of the server's CA (--data)")
}

// shapeFlags are their names.
func shapeFlags() (names []string) {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(short).shape(f, &load.Config{})
	f.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

// play runs the short form.
func (s *short) play(cmd *cobra.Command, o *options) error {
	c := o.config
	if err := o.comparable(c.AdminURL); err != nil {
		return err
	}
	if s.withTLS {
		authority, err := subject.Authority(o.data)
		if err != nil {
			return err
		}
		if c.TLS, err = simulated.Certificates(authority); err != nil {
			return err
		}
	}
	if c.AdminURL != "" {
		c.AdminURL = strings.TrimSuffix(c.AdminURL, "/")
		c.Before = load.HTTPView(c.AdminURL + "/debug/states")
	}
	var err error
	if c.ServerPID, err = findServer(o.pid); err != nil {
		return err
	}
	if s.pages > 0 {
		if c.Pages, err = s.askPages(cmd, c); err != nil {
			return err
		}
	}
	if s.halfway != "" {
		c.Halfway = func(ctx context.Context) error { return load.Shell(ctx, s.halfway) }
	}
	view := live.New(cmd.ErrOrStderr(), os.Getenv, c.Warmup, c.Duration)
	c.Log = slog.New(slog.NewTextHandler(view, &slog.HandlerOptions{Level: slog.LevelError}))
	c.Progress = view.Show
	ctx, signals := heedSignals(cmd, sayTo(view))
	defer signals.release()
	defer signals.heed(&c, view)()
	rep, err := load.Run(ctx, c)
	if err != nil {
		return signals.because(err)
	}
	rep.Title = o.title
	fmt.Fprint(live.Paper(cmd.OutOrStdout(), os.Getenv), rep.Text())
	if o.out != "" {
		if err := rep.Save(o.out); err != nil {
			return unkept(rep, err)
		}
	}
	return verdict(rep)
}

// askPages makes what --pages asks for.
func (s *short) askPages(cmd *cobra.Command, c load.Config) (*people.Pages, error) {
	api, _, err := login(cmd, "")
	if err != nil {
		return nil, err
	}
	return &people.Pages{Client: api, Requests: s.pages, First: c.First, Fleet: max(c.Fleet, c.Agents), Checks: c.Checks,
		Random: rand.New(rand.NewPCG(c.Seed, 1))}, nil
}
