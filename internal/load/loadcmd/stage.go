package loadcmd

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/folder"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/stage"
	"github.com/muster-fleet/muster/internal/load/subject"
)

// againstStage plays the scenario against one stage of a server, in this process.
func (o *options) againstStage(ctx context.Context, cmd *cobra.Command, sc *scenario.Scenario, kept *folder.Folder, say func(string, ...any)) (_ *report.Report, err error) {
	driven, err := stage.Open(ctx, sc, "")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, driven.Close()) }()
	c := o.ofBothForms()
	driven.Configure(&c)
	c.Scenario, c.Second = sc, kept.Second
	warnings, err := load.Preflight(c)
	for _, w := range warnings {
		say("warning: %s", w)
	}
	if err != nil {
		return nil, err
	}
	see, err := o.listenLoader(ctx, say)
	if err != nil {
		return nil, err
	}
	view := progressOf(cmd.ErrOrStderr(), sc)
	c.Progress = func(s report.Sample) { kept.Sample(s); see(s); view.Show(s) }
	defer o.stops.heed(&c, view)()
	say("%s: %d agents, %.0f results/s, %s, %s", sc.FullTitle(), sc.Nodes(""), sc.Rate(), sc.Duration().Round(time.Second), load.StageLabel(c.Alone))
	environment := subject.Here(ctx, c.Data)
	rep, err := load.Run(ctx, c)
	if err != nil {
		return nil, err
	}
	rep.Environment = environment
	o.entitle(rep, sc, sc.FullTitle()+" ("+load.StageLabel(c.Alone)+")")
	rep.Again = o.playedWith(cmd)
	return rep, kept.Save(ctx, rep)
}
