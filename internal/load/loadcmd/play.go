package loadcmd

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/folder"
	"github.com/muster-fleet/muster/internal/load/live"
	"github.com/muster-fleet/muster/internal/load/play"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/load/subject"
	"github.com/muster-fleet/muster/internal/model"
)

// run plays a scenario from top to bottom.
func (o *runner) run(nameOrFile string) error {
	sc, err := o.scenario(nameOrFile)
	if err == nil {
		err = o.fits(o.cmd.Flags(), sc)
	}
	if err == nil {
		err = o.joinable(sc)
	}
	if err == nil && !sc.AgainstSensu() {
		err = o.preflight(sc)
	}
	if err != nil {
		return err
	}
	kept, err := folder.Make(cmp.Or(o.out, folder.Name(sc.Name, time.Now())))
	if err != nil {
		return err
	}
	rep, err := o.against(sc, kept)
	if rep == nil {
		if kept.Discard() {
			o.say("there is no report; the seconds until then are in %s: muster load judge %s", kept.Path, kept.Path)
		}
		return o.stops.explain(err)
	}
	fmt.Fprintf(o.cmd.OutOrStdout(), "%s\n%s", rep.Title, rep.Text()) // the title says the scale
	if err != nil {
		return unsaved(rep, err)
	}
	fmt.Fprintf(o.cmd.OutOrStdout(), "report: %s\n", kept.Path)
	return verdict(rep)
}

// scenario reads a scenario, with --scale, --quick, --target and --seed.
func (o *runner) scenario(nameOrFile string) (*scenario.Scenario, error) {
	scale := 1.0
	if o.cmd.Flags().Changed("scale") {
		scale = o.scale
	}
	sc, err := scenario.LoadAs(nameOrFile, scale, o.quick)
	if err != nil {
		return nil, err
	}
	if o.target != "" && !slices.Contains(scenario.Targets(), o.target) {
		return nil, model.Errorf(model.Invalid, "--target %q: want one of %s", o.target, strings.Join(scenario.Targets(), ", "))
	}
	sc.Target = cmp.Or(o.target, sc.Target)
	if sc.AgainstSensu() {
		err = o.sensu.Runs(sc)
	} else {
		err = sc.Runs()
	}
	if err != nil {
		return nil, err
	}
	if o.cmd.Flags().Changed("seed") {
		sc.Seed = o.seed
	}
	return sc, nil
}

// preflight checks the machine before anything starts.
func (o *runner) preflight(sc *scenario.Scenario) error {
	c := o.config
	c.Part.Of = o.loaders
	c.API = &client.Client{} // of the run
	c.Scenario, c.TLS = sc, func(uuid.UUID) (*tls.Config, error) { return nil, errors.New("a run connects, not its preflight") }
	if !o.cmd.Flags().Changed("server") {
		c.Server, c.Data, c.Control = "127.0.0.1:1", os.TempDir(), &subject.Subject{}
	}
	warnings, err := load.Preflight(c)
	for _, w := range warnings {
		o.say("warning: %s", w)
	}
	return err
}

// against starts or finds the system under test, plays the scenario, and saves its report.
func (o *runner) against(sc *scenario.Scenario, kept *folder.Folder) (*report.Report, error) {
	ctx := o.ctx
	lead, err := o.lead()
	if err != nil {
		return nil, err
	}
	if lead != nil {
		defer lead.Close()
		ctx = lead.Context()
	}
	c := o.config
	c.Part.Of = o.loaders
	c.Scenario, c.Observed = sc, filepath.Join(kept.Path, folder.ObservationLog)
	view := progressOf(o.cmd.ErrOrStderr(), sc)
	c.Log = slog.New(slog.NewTextHandler(view, &slog.HandlerOptions{Level: slog.LevelError}))
	defer o.stops.attach(&c, view)()
	var server *subject.Subject
	var found *play.Found // nil: Muster
	if sc.AgainstSensu() {
		view.Done = "left"
		found, server, err = o.backend(&c)
	} else {
		server, err = o.server(ctx, &c)
	}
	if err != nil {
		return nil, err
	}
	defer server.Stop()
	environment := server.Environment(ctx)
	profiler := subject.NewProfiler(ctx, server, sc, kept.Path)
	c.Progress = func(s report.Sample) {
		if !o.unprofiled {
			profiler.See(s)
		}
		view.Show(s)
	}
	rep, err := runAll(ctx, lead, c, server, found)
	if err := profiler.Close(rep); err != nil {
		o.say("warning: %v", err)
	}
	if err != nil {
		return nil, fallen(server, kept, err)
	}
	title := sc.FullTitle()
	if found != nil {
		title += ", " + found.System + rep.Targeted.Version
		environment.Packages = map[string]string{found.Program: rep.Targeted.Version}
	}
	entitle(rep, cmp.Or(o.title, title))
	if label := sc.Label(); label != "" {
		rep.Label = append(rep.Label, label)
	}
	rep.Environment = environment
	rep.AddFile(folder.ObservationLog, "observations of the loader: muster load judge judges them again")
	return rep, save(ctx, server, kept, rep)
}

// server starts a server, or attaches to the one that runs.
func (o *runner) server(ctx context.Context, c *load.Config) (server *subject.Subject, err error) {
	if o.cmd.Flags().Changed("server") {
		server, err = o.attach(ctx, c)
	} else {
		server, err = o.start(ctx, c)
	}
	if err != nil {
		return nil, err
	}
	c.Server, c.ServerTLS, c.AdminURL, c.Data, c.API = server.Plain, server.TLS, server.Admin, server.Data, server.API
	switch {
	case c.AdminURL != "":
		c.Before = play.HTTPView(c.AdminURL + "/debug/states")
	case c.API != nil:
		c.Before = play.APIView(c.API)
	}
	return server, nil
}

// start starts a server of the run's own.
func (o *runner) start(ctx context.Context, c *load.Config) (*subject.Subject, error) {
	sc := c.Scenario
	o.say("%s: %s", sc.FullTitle(), sc.Brief())
	start := subject.Options{Binary: o.binary, Flags: append(slices.Clone(sc.Server.Flags), o.flags...), Cores: sc.Server.Cores, Say: o.say,
		Prepare: func(ctx context.Context, s *intent.Service) error { return simulated.Prepare(ctx, s, sc) }}
	server, err := subject.Start(ctx, start)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(sc.Agents, func(c scenario.Class) bool { return c.TLS || len(c.Policies) > 0 }) {
		c.Bare = load.Resident()
		authority, err := server.Authority()
		if err == nil {
			c.TLS, err = simulated.Certificates(authority)
		}
		if err != nil {
			server.Stop()
			return nil, err
		}
	}
	c.Control, c.ServerPID, c.Fell, c.Startup = server, server.PID, server.Fell, server.Startup
	return server, nil
}

// fallen returns the error of a run without a report. If the server under test ended by itself, the error says so, and
// the server's log stays in the folder.
func fallen(server *subject.Subject, kept *folder.Folder, err error) error {
	fell := server.Fell()
	if fell == "" {
		return err
	}
	because := model.Errorf(model.Unavailable, "the server under test ended by itself: %s (%w)", fell, err)
	var log bytes.Buffer
	if server.CopyLog(context.Background(), &log) == nil && kept.Write(folder.ServerLog, log.Bytes()) == nil {
		because = because.WithHint("its log is %s", filepath.Join(kept.Path, folder.ServerLog))
	}
	return because
}

// logWithin is the longest time to read the log of a server that the run did not start.
const logWithin = 30 * time.Second

// save saves the report with the server's log. A report without the log has a label.
func save(ctx context.Context, server *subject.Subject, kept *folder.Folder, rep *report.Report) error {
	var log bytes.Buffer
	reading, over := context.WithTimeout(ctx, logWithin)
	defer over()
	if err := server.CopyLog(reading, &log); err != nil {
		rep.Label = append(rep.Label, fmt.Sprintf("the server's log is not in the report: %v", err))
		log.Reset()
	}
	return kept.Save(rep, log.Bytes())
}

// entitle sets the title of a report.
func entitle(rep *report.Report, title string) {
	if rep.Title = title; rep.Stopped != nil {
		rep.Title += ", " + rep.Stopped.String()
	}
}

// progressOf shows the progress of a scenario's run: its first phase is the ramp, and the measurement begins after the
// warm-up of the next one.
func progressOf(w io.Writer, sc *scenario.Scenario) *live.View {
	ramp, drain := time.Duration(sc.Phases[0].Ramp), time.Duration(sc.Phases[len(sc.Phases)-1].Drain)
	before := ramp + time.Duration(sc.Phases[1].Warmup)
	return live.New(w, os.Getenv, before, sc.Duration()-before-drain)
}
