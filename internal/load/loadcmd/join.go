package loadcmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/join"
	"github.com/muster-fleet/muster/internal/load/play"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/subject"
	"github.com/muster-fleet/muster/internal/model"
)

// joinCommand makes the command muster load join.
func joinCommand() *cobra.Command {
	o := &runner{}
	cmd := &cobra.Command{
		Use:   "join TOKEN",
		Short: "Play a part of a run that another loader leads",
		Long: `Joins a run that was begun with muster load run NAME --loaders N, which prints the token and waits. This
process plays its part of the agents, and ends with the run; the report is where the run was begun. It
needs nothing else: the scenario, addresses, keys and certificates of its agents come over the connection.

Ctrl-C ends the present phase of the whole run, as where it was begun; a second one leaves, and ends the
run for all, without a report.

Exit codes: 0 the part was played to the end, whatever the verdict; else why it was not.`,
		Example: "  muster load join mlj1.…",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			defer o.begin(cmd)()
			return o.follow(args[0])
		},
	}
	return cmd
}

// follow plays a part from top to bottom.
func (o *runner) follow(text string) error {
	token, err := join.ParseToken(text)
	if err != nil {
		return err
	}
	f, err := join.Dial(o.ctx, token)
	if err != nil {
		return err
	}
	o.stops.forward(f.Stop)
	err = o.part(f)
	f.Close(err)
	if err != nil {
		return o.stops.explain(err)
	}
	const there = "; its report is where it was begun"
	switch sentences, ok := f.Verdict(); {
	case ok:
		fmt.Fprintln(o.cmd.OutOrStdout(), "the run is over, and all is well"+there)
	case f.Stopped():
		fmt.Fprintln(o.cmd.OutOrStdout(), "the run is over: "+strings.Join(sentences, "; ")+there)
	default:
		fmt.Fprintln(o.cmd.OutOrStdout(), "the run is over, and failed: "+strings.Join(sentences, "; "))
	}
	return nil
}

// part plays the part that the lead sends.
func (o *runner) part(f *join.Follower) error {
	o.say("joined; the run begins when all loaders have")
	c, err := f.Plan()
	if err != nil {
		return err
	}
	o.say("%s: loader %d of %d", c.Scenario.FullTitle(), c.Part.Number+1, c.Part.Of)
	view := progressOf(o.cmd.ErrOrStderr(), c.Scenario)
	c.Log = slog.New(slog.NewTextHandler(view, &slog.HandlerOptions{Level: slog.LevelError}))
	c.Progress = view.Show
	_, err = load.Run(f.Context(), c)
	if errors.Is(err, context.Canceled) && context.Cause(f.Context()) != nil {
		return context.Cause(f.Context())
	}
	return err
}

// lead waits for the other loaders, or returns nil if this is the only one.
func (o *runner) lead() (*join.Lead, error) {
	if o.loaders < 2 {
		return nil, nil
	}
	l, err := join.Listen(o.ctx, o.listenJoin, o.loaders, o.say)
	if err != nil {
		return nil, err
	}
	l.OnStop(func(who string) { o.stops.signal(1, who) })
	o.say("waiting for loaders: %d; begin each with\n  muster load join %s", o.loaders-1, l.Token())
	if err := l.Gather(); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// runAll plays the scenario, with the other loaders if there are any, or against another target.
func runAll(ctx context.Context, lead *join.Lead, c load.Config, server *subject.Subject, found *play.Found) (*report.Report, error) {
	switch {
	case found != nil:
		return load.RunTarget(ctx, c, found.Target)
	case lead == nil:
		return load.Run(ctx, c)
	}
	var rep *report.Report
	ca, err := authorityOf(server, c)
	if err == nil {
		c, err = lead.Send(c, ca)
	}
	if err == nil {
		rep, err = load.Run(ctx, c)
	}
	if err != nil {
		return nil, lead.Fail(err)
	}
	lead.Over(rep)
	return rep, nil
}

// authorityOf returns the certificate (PEM) of the authority that the agents trust.
func authorityOf(server *subject.Subject, c load.Config) ([]byte, error) {
	if server.Data == "" || c.TLS == nil {
		return server.CA, nil
	}
	authority, err := server.Authority()
	if err != nil {
		return nil, err
	}
	return authority.CAPEM(), nil
}

const maxLoaders = 64

// joinable refuses scenarios that several loaders cannot play.
func (o *runner) joinable(sc *scenario.Scenario) error {
	switch {
	case o.loaders < 1 || o.loaders > maxLoaders:
		return model.Errorf(model.Invalid, "--loaders %d: want 1 to %d", o.loaders, maxLoaders)
	case o.loaders == 1:
		return nil
	case sc.AgainstSensu():
		return model.Errorf(model.Unsupported, "target %s is loaded by one process: --loaders is for runs against Muster", sc.Target).WithHint("leave --loaders out")
	}
	return play.Joinable(sc)
}
