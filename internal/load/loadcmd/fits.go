package loadcmd

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// kind is what a run is played against, as its flags see it; several are several bits.
type kind uint8

const (
	own     kind = 1 << iota // a server of the run's own
	running                  // a server that --server names
	other                    // another system, which runs
	bridged                  // Muster's own listener for agents of another system
)

// kindOf is that of a scenario's run.
func (o *options) kindOf(f *pflag.FlagSet, sc *scenario.Scenario) kind {
	_, elsewhere := sc.System()
	switch {
	case elsewhere && o.system(sc).Ours():
		return bridged
	case elsewhere:
		return other
	case f.Changed("server"):
		return running
	}
	return own
}

// against names a kind.
func (k kind) against() string {
	switch k {
	case own:
		return "a server of the run's own"
	case running:
		return "a server that runs"
	case other:
		var list []string
		for _, s := range systems() {
			list = append(list, s.Is())
		}
		return strings.Join(list, " or ")
	}
	return "a bridge of Muster"
}

// meant is which runs a flag of muster load run does something in.
func meant(flag string) kind {
	switch flag {
	case "server", "server-pid":
		return running | other | bridged
	case "admin":
		return running | bridged
	case "data", "uncompared", "server-plain", "identities":
		return running
	case "server-binary", "server-flag":
		return own
	case "listen-join":
		return own | running
	case "spool-bytes", "parallel", "senders", "sources":
		return own | running
	}
	if ofSystem(flag) != nil {
		return other | bridged
	}
	return own | running | other | bridged // options.joinable says who has no loaders
}

// fits refuses flags that would do nothing in a run of this kind.
func fits(f *pflag.FlagSet, k kind) (err error) {
	f.Visit(func(flag *pflag.Flag) {
		m := meant(flag.Name)
		switch {
		case err != nil || m&k != 0:
		default:
			var list []string
			for _, one := range []kind{own, running, other} {
				if m&one != 0 {
					list = append(list, one.against())
				}
			}
			hint := "leave it out"
			if k == own && m&running != 0 {
				hint += ", or name the server that runs: --server HOST:PORT"
			}
			err = model.Errorf(model.Invalid, "--%s is for %s, and this run is against %s", flag.Name, strings.Join(list, " or "), k.against()).WithHint("%s", hint)
		}
	})
	if n, _ := f.GetInt("loaders"); err == nil && n == 1 && f.Changed("listen-join") {
		return model.Errorf(model.Invalid, "--listen-join is for --loaders: nobody joins a run of one loader").WithHint("leave it out, or say how many play: --loaders 2")
	}
	return err
}

// noServer refuses the --server that all of muster's commands share, where each of these (what)
// has a server of its own.
func noServer(cmd *cobra.Command, what, name string) error {
	if !cmd.Flags().Changed("server") {
		return nil
	}
	return model.Errorf(model.Invalid, "each %s has a server of its own: leave --server out", what).WithHint("muster load run %s --server HOST:PORT plays it against one that runs", name)
}
