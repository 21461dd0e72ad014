package loadcmd

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/load/folder"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/sizing"
	"github.com/muster-fleet/muster/internal/model"
)

// sizer are the flags of size.
type sizer struct {
	runner
	factors []float64
	seconds int
}

// sizeCommand makes the command muster load size.
func sizeCommand() *cobra.Command {
	s := &sizer{}
	cmd := &cobra.Command{
		Use:   "size NAME|FILE",
		Short: "Say how much of a scenario this machine carries, at which cost, and which limit comes first",
		Long: `Plays a scenario with one, two and four times its agents (--factors), each time on a fresh server of its
own: a short steady stretch without its faults. It stops at the first size that is not carried: one whose
objectives are missed, or which a limit of this machine does not let begin. It ends with a table and one
sentence. Server and simulated agents share this machine; where those break first, the sentence says so.

The scenario is a file (muster load from-fleet writes that of your installation) or one of muster load list.
Without a latency among its objectives, 500 ms beyond the linger are asked (p99). The reports of the runs
stay in the folder. A size that is not carried is played once more, and the second run decides. Exit code
0: there is an answer, whatever it is; 9: the server did not come up for the first size; 21: something was
lost, or an alert was wrong; 22: Ctrl-C stopped it, and the sizes before that are the answer.`,
		Example: "  muster load size mine.yaml\n" +
			"  muster load size muster-sizing --factors 1,10 --seconds 60",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: shippedNames,
	}
	f := cmd.Flags()
	f.Float64SliceVar(&s.factors, "factors", []float64{1, 2, 4}, "sizes to try: so many times the agents")
	f.Lookup("factors").DefValue = "1,2,4" // as it is typed
	f.IntVar(&s.seconds, "seconds", 30, "measured time of each; before it agents connect, and results flow for as long (a minute at most)")
	f.StringVar(&s.out, "out", "", "folder for the reports; default: muster-load/size-NAME-TIME")
	s.serverFlags(f)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := s.checkFlags()
		if err == nil {
			err = noServer(cmd, args[0])
		}
		if err != nil {
			return err
		}
		defer s.begin(cmd)()
		return s.stops.explain(s.size(args[0]))
	}
	return cmd
}

// checkFlags returns an error if flags have impossible values.
func (s *sizer) checkFlags() error {
	if s.seconds < 1 || s.seconds > 3600 {
		return model.Errorf(model.Invalid, "--seconds %d: want 1 to 3600", s.seconds)
	}
	slices.Sort(s.factors)
	if s.factors = slices.Compact(s.factors); len(s.factors) == 0 {
		return model.Errorf(model.Invalid, "--factors: none given").WithHint("--factors 1,2,4")
	}
	for _, x := range s.factors {
		if !(x > 0 && x <= 1000) {
			return model.Errorf(model.Invalid, "--factors %g: want numbers above 0, at most 1000", x).WithHint("--factors 1,2,4")
		}
	}
	return nil
}

// size tries one size after the other, and shows the answer.
func (s *sizer) size(name string) error {
	sc, err := scenario.Load(name)
	if err == nil {
		err = sc.Runs()
	}
	if err != nil {
		return err
	}
	if report.SoleUnit(sc) != "" {
		return model.Errorf(model.Unsupported, "%s: values of items and runs of directives have no sizes", sc.Name).WithHint("muster load run %s", sc.Name)
	}
	if sc.AgainstSensu() {
		return model.Errorf(model.Unsupported, "%s has the target %s: only Muster is sized", sc.Name, sc.Target)
	}
	s.out = cmp.Or(s.out, folder.Name("size-"+sc.Name, time.Now()))
	defer func() { _ = os.Remove(s.out) }() // only if it is empty
	var tries []sizing.Try
	var stopped error
	for _, factor := range s.factors {
		t, err := s.try(sc, factor)
		if endsWith(err, exitStopped) {
			s.say("%v", err)
			stopped = err
			break
		}
		if err != nil {
			return err
		}
		if len(tries) == 0 && t.Report == nil && model.ClassOf(t.Err) == model.Unavailable {
			return t.Err // a server that never came up says nothing of the machine
		}
		if tries = append(tries, t); !t.Carried() {
			break
		}
	}
	if len(tries) == 0 {
		return stopped
	}
	text := sizing.Text(tries)
	fmt.Fprint(s.cmd.OutOrStdout(), text)
	last := &tries[len(tries)-1]
	if len(tries) > 1 || last.Report != nil {
		if err := os.WriteFile(filepath.Join(s.out, "size.txt"), []byte(text), 0o644); err != nil {
			return fmt.Errorf("keep the answer: %w", err)
		}
		fmt.Fprintf(s.cmd.OutOrStdout(), "reports: %s\n", s.out)
	}
	if last.Report != nil && last.Report.Lost() {
		return verdict(last.Report)
	}
	return stopped
}

// try plays one size, and once more if it is not carried. Limits of the machine, and a server that does not come up, are answers;
// all else is an error.
func (s *sizer) try(sc *scenario.Scenario, factor float64) (t sizing.Try, err error) {
	sc = sc.Sized(factor, time.Duration(s.seconds)*time.Second)
	t = sizing.Try{Factor: factor, Agents: sc.Nodes(""), Results: sc.Rate(), States: sc.States()}
	if t.Err = s.preflight(sc); t.Err != nil {
		if s.say("%s", strings.TrimSpace(t.Err.Error())); model.ClassOf(t.Err) != model.Limited {
			err = t.Err
		}
		return t, err
	}
	name := strconv.FormatFloat(factor, 'g', 4, 64) + "x"
	for {
		t.Report, t.Err = s.play(sc, name)
		if t.Err != nil && (t.Report != nil || s.stops.stopped() || model.ClassOf(t.Err) != model.Unavailable) {
			return t, t.Err
		}
		if !t.Stumbled() || t.Before != nil {
			return t, nil
		}
		s.say("it is not carried; it is played once more, for machines stumble")
		t.Before, name = t.Report, name+"-again"
	}
}
