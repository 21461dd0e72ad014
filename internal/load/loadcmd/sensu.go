package loadcmd

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/folder"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/subject"
)

// againstSensu plays the scenario against a running Sensu backend or bridge of Muster.
func (o *options) againstSensu(ctx context.Context, cmd *cobra.Command, sc *scenario.Scenario, kept *folder.Folder, say func(string, ...any)) (*report.Report, error) {
	server := ""
	if cmd.Flags().Changed("server") {
		server = o.config.Server
	}
	found, err := o.sensu.Find(sc, server, func() (*client.Client, error) {
		api, _, err := login(cmd, "")
		return api, err
	})
	if err != nil {
		return nil, err
	}
	if err := load.TargetPlays(sc, found.Target); err != nil {
		return nil, err
	}
	view := progressOf(cmd.ErrOrStderr(), sc)
	view.Done = "left"
	c := o.config
	c.Part.Of = o.loaders
	c.AdminURL = strings.TrimSuffix(c.AdminURL, "/")
	profiler := subject.NewProfiler(ctx, &subject.Subject{Admin: c.AdminURL}, sc, kept.Path)
	c.Observed = filepath.Join(kept.Path, observationLog)
	c.Scenario, c.Progress = sc, func(s report.Sample) { kept.Sample(s); profiler.See(s); view.Show(s) }
	defer o.stops.attach(&c, view)()
	c.Server = strings.Join(found.Hosts, ",")
	if c.ServerPID, err = serverPID(o.pid); err != nil {
		return nil, err
	}
	say("%s: %s, against %s", sc.FullTitle(), sc.Brief(), server)
	environment := subject.Here(ctx, "") // its folder is unknown
	rep, err := load.RunTarget(ctx, c, found.Target)
	if err := profiler.Close(rep); err != nil {
		say("warning: %v", err)
	}
	if err != nil {
		return nil, err
	}
	environment.Packages = map[string]string{found.Program: rep.Targeted.Version}
	rep.Environment = environment
	o.entitle(rep, sc, fmt.Sprintf("%s, %s%s", sc.FullTitle(), found.System, rep.Targeted.Version))
	rep.AddFile(observationLog, observationLogTitle)
	return rep, kept.Save(ctx, rep)
}
