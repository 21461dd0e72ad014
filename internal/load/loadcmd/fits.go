package loadcmd

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// kind is the system under test of a run; a set of kinds has several bits.
type kind uint8

const (
	own     kind = 1 << iota // a server that the run starts
	running                  // the server of --server
	backend                  // a Sensu backend
	bridge                   // a Muster server's listener for Sensu agents
	anyKind = own | running | backend | bridge
)

// kindOf returns the kind of a scenario's run.
func (o *options) kindOf(f *pflag.FlagSet, sc *scenario.Scenario) kind {
	_, isSensu := sc.System()
	switch {
	case isSensu && o.sensu.Ours():
		return bridge
	case isSensu:
		return backend
	case f.Changed("server"):
		return running
	}
	return own
}

// String names the kinds.
func (k kind) String() string {
	var list []string
	for i, name := range [...]string{"a server of the run's own", "a server that runs", "a Sensu backend", "a bridge of Muster"} {
		if k&(1<<i) != 0 {
			list = append(list, name)
		}
	}
	return strings.Join(list, " or ")
}

// kindsOf returns the kinds of runs that a flag of muster load run applies to.
func kindsOf(flag string) kind {
	switch flag {
	case "server", "server-pid":
		return running | backend | bridge
	case "admin":
		return running | bridge
	case "data", "uncompared", "server-plain", "identities":
		return running
	case "server-binary", "server-flag":
		return own
	case "listen-join", "sources":
		return own | running
	}
	if strings.HasPrefix(flag, "sensu-") {
		return backend | bridge
	}
	return anyKind // options.joinable refuses loaders
}

// fits refuses flags that have no effect in a run of this kind.
func fits(f *pflag.FlagSet, k kind) (err error) {
	f.Visit(func(flag *pflag.Flag) {
		if m := kindsOf(flag.Name); m&k == 0 && err == nil {
			hint := "leave it out"
			if k == own && m&running != 0 {
				hint += ", or name the server that runs: --server HOST:PORT"
			}
			err = model.Errorf(model.Invalid, "--%s is for %s, and this run is against %s", flag.Name, m, k).WithHint("%s", hint)
		}
	})
	if n, _ := f.GetInt("loaders"); err == nil && n == 1 && f.Changed("listen-join") {
		return model.Errorf(model.Invalid, "--listen-join is for --loaders: nobody joins a run of one loader").WithHint("leave it out, or say how many play: --loaders 2")
	}
	return err
}
