package loadcmd

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// fits refuses flags that have no effect in the run of a scenario. The usage of a flag begins with the runs that it is for:
// "with --server: its data folder".
func (o *options) fits(f *pflag.FlagSet, sc *scenario.Scenario) error {
	_, isSensu := sc.System()
	holds := map[string]bool{
		"with --server": f.Changed("server"), "without --server": !f.Changed("server") && !isSensu,
		"with --target sensu": isSensu, "with --server of Muster": f.Changed("server") && !isSensu, "with --loaders": o.loaders > 1,
		"with --server of Muster or --sensu-bridge": f.Changed("server") && !isSensu || f.Changed("sensu-bridge"), "against Muster": !isSensu,
	}
	return refuseFlags(f, holds)
}

// refuseFlags refuses flags whose condition does not hold.
func refuseFlags(f *pflag.FlagSet, holds map[string]bool) (err error) {
	f.Visit(func(flag *pflag.Flag) {
		condition, _, _ := strings.Cut(flag.Usage, ": ")
		if fits, known := holds[condition]; known && !fits && err == nil {
			err = model.Errorf(model.Invalid, "--%s is for runs %s, and this is another", flag.Name, condition).WithHint("leave it out; --help names the flags that go together")
		}
	})
	return err
}
