package loadcmd

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/load/folder"
	"github.com/muster-fleet/muster/internal/load/live"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/sizing"
	"github.com/muster-fleet/muster/internal/model"
)

// sizer are the flags of size.
type sizer struct {
	options
	file    string
	factors []float64
	seconds int
}

func sizeCommand() *cobra.Command {
	s := &sizer{}
	cmd := &cobra.Command{
		Use:   "size [NAME|FILE]",
		Short: "Say what this machine carries of a scenario, what that uses, and what breaks first",
		Long: `Plays a scenario with one, two and four times its agents (--factors), each time on a fresh server of its
own: a short steady stretch without its faults. It stops at the first size that is not carried: one whose
objectives are missed, or which a limit of this machine does not let begin. It ends with a table and one
sentence. Server and simulated agents share this machine; where those break first, the sentence says so.

The scenario is a file (muster load from-fleet writes that of your installation) or one of muster load list.
Without a latency among its objectives, 500 ms beyond the linger are asked (p99). The reports of the runs
stay in the folder. A size that is not carried is played once more, and the second run decides. Exit code
0: there is an answer, whatever it is; 9: the server did not come up for the first size; 21: something was
lost, or an alert was wrong; 22: Ctrl-C stopped it, and the sizes before that are the answer.`,
		Example: "  muster load size -f mine.yaml\n" +
			"  muster load size muster-sizing --factors 1,10 --seconds 60",
		Args: cobra.MaximumNArgs(1), SilenceUsage: true, SilenceErrors: true,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return scenario.Names(), cobra.ShellCompDirectiveDefault
		},
	}
	f := cmd.Flags()
	f.StringVarP(&s.file, "file", "f", "", "the scenario's file, or its NAME")
	f.Float64SliceVar(&s.factors, "factors", []float64{1, 2, 4}, "sizes to try: so many times the agents")
	f.Lookup("factors").DefValue = "1,2,4" // as it is typed
	f.IntVar(&s.seconds, "seconds", 30, "measured time of each; before it agents connect, and results flow for as long (a minute at most)")
	f.StringVarP(&s.out, "out", "o", "", "folder for the reports; default: muster-load/size-NAME-TIME")
	f.StringVar(&s.binary, "server-binary", "", "the program to start as muster server; default: this one")
	f.StringArrayVar(&s.flags, "server-flag", nil, "a word for the server that is started, such as --snapshot-cycle=30s; may be repeated")
	f.DurationVar(&s.config.MaxLag, "max-lag", 50*time.Millisecond, "generator lag (p99) from which on the simulated agents count as broken")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, err := s.scenarioName(args)
		if err == nil {
			err = noServer(cmd, "size", name)
		}
		if err != nil {
			return err
		}
		ctx, signals := heedSignals(cmd, func(format string, args ...any) { fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...) })
		defer signals.release()
		s.stops = signals
		return signals.because(s.size(ctx, cmd, name))
	}
	return cmd
}

// scenarioName is the one that is meant, once all flags make sense.
func (s *sizer) scenarioName(args []string) (string, error) {
	switch {
	case s.file == "" && len(args) == 0:
		return "", model.Errorf(model.Invalid, "there is no scenario to size").WithHint("muster load size muster-sizing, or -f FILE with one of yours (muster load from-fleet writes it); muster load list shows those that are shipped")
	case s.file != "" && len(args) > 0:
		return "", model.Errorf(model.Invalid, "two scenarios to size: %s, and -f %s", args[0], s.file).WithHint("leave one out")
	}
	if s.seconds < 1 || s.seconds > 3600 {
		return "", model.Errorf(model.Invalid, "--seconds %d: want 1 to 3600", s.seconds)
	}
	for _, x := range s.factors {
		if !(x > 0 && x <= 1000) {
			return "", model.Errorf(model.Invalid, "--factors %g: want numbers above 0, at most 1000", x).WithHint("--factors 1,2,4")
		}
	}
	slices.Sort(s.factors)
	if s.factors = slices.Compact(s.factors); len(s.factors) == 0 {
		return "", model.Errorf(model.Invalid, "--factors: none given").WithHint("--factors 1,2,4")
	}
	if s.file != "" {
		return s.file, nil
	}
	return args[0], nil
}

// size tries one size after the other, and says what came of it.
func (s *sizer) size(ctx context.Context, cmd *cobra.Command, name string) error {
	sc, err := scenario.Load(name)
	if err != nil {
		return err
	}
	if sc.Target != "muster" {
		return model.Errorf(model.Unsupported, "%s has the target %s: only Muster is sized", sc.Name, sc.Target)
	}
	dir := s.out
	if dir == "" {
		dir = folder.Name("size-"+sc.Name, time.Now())
	}
	if _, err := os.Stat(dir); err != nil {
		defer func() { _ = os.Remove(dir) }() // where nothing was kept in it
	}
	var tries []sizing.Try
	var stopped error
	for _, factor := range s.factors {
		sized := sc.Sized(factor, time.Duration(s.seconds)*time.Second)
		size := strconv.FormatFloat(factor, 'g', 4, 64)
		t, err := s.tryTwice(ctx, cmd, sized, size+"×", filepath.Join(dir, size+"x"))
		if endsWith(err, exitStopped) { // between two runs
			stopped = err
			break
		}
		if err != nil {
			return err
		}
		if len(tries) == 0 && t.Report == nil && model.ClassOf(t.Err) == model.Unavailable {
			return t.Err // it says nothing of the machine: of a server that never came up nothing is known
		}
		t.Factor = factor
		if t.Report != nil && t.Report.Stopped != nil {
			stopped = verdict(t.Report)
			fmt.Fprintf(cmd.ErrOrStderr(), "%s× was %s, and says nothing of the machine\n", size, t.Report.Stopped)
			break
		}
		if tries = append(tries, t); !t.Carried() {
			break
		}
	}
	if len(tries) == 0 {
		return stopped
	}
	text := "\n"
	if later := sizing.Later(tries); later != "" {
		text += later + "\n"
	}
	if again := sizing.Again(tries); again != "" {
		text += again + "\n"
	}
	text += sizing.Sentence(tries) + "\n"
	out := live.Paper(cmd.OutOrStdout(), os.Getenv)
	fmt.Fprint(out, sizing.Table(tries, live.Columns(cmd.OutOrStdout(), os.Getenv))+text)
	last := &tries[len(tries)-1]
	if len(tries) > 1 || last.Report != nil {
		if err := os.WriteFile(filepath.Join(dir, "size.txt"), []byte(sizing.Table(tries, 0)+text), 0o644); err != nil {
			return fmt.Errorf("keep the answer: %w", err)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "reports: %s\n", dir)
	}
	if last.Report != nil && last.Report.Lost() {
		return verdict(last.Report)
	}
	return stopped
}

// tryTwice plays a size that is not carried once more: a machine may stumble in the seconds of
// one run. What a limit keeps from being played stays so, and what was wrong once was wrong. Nothing is
// played once somebody asked for the end.
func (s *sizer) tryTwice(ctx context.Context, cmd *cobra.Command, sc *scenario.Scenario, size, path string) (sizing.Try, error) {
	if err := s.stops.next(size); err != nil {
		return sizing.Try{}, err
	}
	t, err := s.try(ctx, cmd, sc, path)
	if err != nil || !t.Stumbled() {
		return t, err
	}
	if err := s.stops.next(size + " once more"); err != nil {
		return t, err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "it is not carried; it is played once more, for machines stumble\n")
	again, err := s.try(ctx, cmd, sc, path+"-again")
	if err != nil || again.Report != nil && again.Report.Stopped != nil {
		return again, err
	}
	again.Before = t.Report
	return again, nil
}

// try plays one size. Only what says nothing about the machine is an error: that there is
// no such program, that somebody ended the run.
func (s *sizer) try(ctx context.Context, cmd *cobra.Command, sc *scenario.Scenario, path string) (sizing.Try, error) {
	say := sayTo(live.Paper(cmd.ErrOrStderr(), os.Getenv))
	t := sizing.Try{Agents: sc.Nodes(""), Results: sc.Rate(), States: sc.States()}
	if err := resultsOnly(sc); err != nil {
		return t, err
	}
	if t.Err = s.preflight(cmd, sc, say); t.Err != nil {
		say("%s", strings.TrimSpace(t.Err.Error()))
		return t, unless(model.ClassOf(t.Err) == model.Limited, t.Err)
	}
	kept, err := folder.Make(path)
	if err != nil {
		return t, err
	}
	t.Report, t.Err = s.against(ctx, cmd, sc, kept, say)
	if t.Report == nil {
		kept.Discard()
		if s.stops.stopped() {
			return t, t.Err
		}
		return t, unless(ctx.Err() == nil && model.ClassOf(t.Err) == model.Unavailable, t.Err)
	}
	return t, unkept(t.Report, t.Err)
}

// unless is the error, where it is not an answer.
func unless(answer bool, err error) error {
	if answer {
		return nil
	}
	return err
}
