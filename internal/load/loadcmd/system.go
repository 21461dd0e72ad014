package loadcmd

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/folder"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/sensu"
	"github.com/muster-fleet/muster/internal/load/subject"
	"github.com/muster-fleet/muster/internal/model"
)

// system is another one than Muster that can be a target: one folder beside this one.
type system interface {
	Name() string           // as a scenario's target has it
	Is() string             // in a sentence
	Flags(f *pflag.FlagSet) // of its own; each begins with its name
	// Ours says, once its flags are known, that what runs there is Muster, whose admin listener tells more.
	Ours() bool
	// Runs says whether a scenario waits for something: nil, or an Unsupported error.
	Runs(sc *scenario.Scenario) error
	// Find is the target that runs where server says; login is Muster's own.
	Find(sc *scenario.Scenario, server string, login func() (*client.Client, error)) (*load.Found, error)
}

// systems are all. Their names are those of scenario.Systems.
func systems() []system {
	return []system{&sensu.Command{}}
}

// system is the one that a scenario's target names; nil: Muster, or a stage of it.
func (o *options) system(sc *scenario.Scenario) system {
	for _, s := range o.systems {
		if s.Name() == sc.Target {
			return s
		}
	}
	return nil
}

// ofSystem is whose a flag is; nil: no system's.
func ofSystem(flag string) system {
	for _, s := range systems() {
		if strings.HasPrefix(flag, s.Name()+"-") {
			return s
		}
	}
	return nil
}

// strangers refuses flags of other systems than the one that is loaded.
func strangers(f *pflag.FlagSet, sc *scenario.Scenario) (err error) {
	f.Visit(func(flag *pflag.Flag) {
		if s := ofSystem(flag.Name); s != nil && s.Name() != sc.Target && err == nil {
			err = model.Errorf(model.Invalid, "--%s is for %s, and this run is against %s", flag.Name, s.Is(), sc.Target).WithHint("leave it out")
		}
	})
	return err
}

// againstSystem plays the scenario against another system, which runs.
func (o *options) againstSystem(ctx context.Context, cmd *cobra.Command, sc *scenario.Scenario, kept *folder.Folder, say func(string, ...any)) (*report.Report, error) {
	server := ""
	if cmd.Flags().Changed("server") {
		server = o.config.Server
	}
	found, err := o.system(sc).Find(sc, server, func() (*client.Client, error) {
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
	profiler := subject.NewProfiler(ctx, &subject.Subject{Admin: c.AdminURL}, sc, c.Goals, kept.Path)
	c.Observed = filepath.Join(kept.Path, observationLog)
	c.Scenario, c.Second, c.Progress = sc, kept.Second, func(s report.Sample) { kept.Sample(s); profiler.See(s); view.Show(s) }
	defer o.stops.heed(&c, view)()
	c.Server = strings.Join(found.Hosts, ",")
	if c.ServerPID, err = findServer(o.pid); err != nil {
		return nil, err
	}
	say("%s: %s, against %s", sc.FullTitle(), sc.Brief(), server)
	environment := subject.Here(ctx, "") // its folder is nobody's to say
	rep, err := load.RunTarget(ctx, c, found.Target)
	for _, trouble := range profiler.Close(rep) {
		say("warning: %v", trouble)
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
