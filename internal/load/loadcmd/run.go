package loadcmd

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/sensu"
	"github.com/muster-fleet/muster/internal/model"
)

// runner plays runs, one after the other, into folders of their own, by the flags of run.
type runner struct {
	cmd   *cobra.Command
	ctx   context.Context // ends the command at once
	say   func(format string, args ...any)
	stops *stops

	config load.Config
	goals  []string

	quick      bool
	scale      float64
	seed       uint64
	binary     string
	flags      []string // of the server
	plain      string
	target     string
	sensu      sensu.Command
	pid        string
	data       string
	identities string
	uncompared bool
	out, title string
	unprofiled bool // no profiles: they cost the server allocations, which are counted
	loaders    int
	listenJoin string
}

// runCommand makes the command muster load run.
func runCommand() *cobra.Command {
	o := &runner{}
	cmd := &cobra.Command{
		Use:   "run [NAME|FILE]",
		Short: "Play a scenario, and say whether it went well",
		Long: `Plays a scenario: one of muster load list by its name, or a file. It starts a server of its own in a
temporary folder, opens the sessions of all agents, sends what they have to say, does what goes wrong
meanwhile, compares what the server knows in the end with what was sent, and leaves a folder with the
report. With --server it uses a server that runs: nodes, groups and checks are made in its namespace
load through the API (muster login first), and the agents join with a token; their keys and certificates
stay in --identities for the next run.

Exit codes: 0 all is well; 7 this machine cannot hold the run, the generator fell behind, or the
disk of the report is full; 12 the scenario waits for something that this version cannot do; 20 an
objective was missed, good results were refused or not taken, no step held, or the server crashed or did
not say what it holds; 21 something was lost, came twice, was taken though it had to be refused, or an
alert was wrong: of what the script let fail, or of a machine that was well; 22 it was stopped, and
nothing was wrong as far as it was played. Ctrl-C (or SIGTERM) ends the present phase: what was played
is drained, compared and reported.
A second one, or one before anything was sent, ends at once, without a report (130).`,
		Example: "  muster load run sensu-4000x40x5s --quick\n" +
			"  muster load run my-fleet.yaml --server-flag=--snapshot-cycle=30s --out /tmp/mine\n" +
			"  muster load run my-fleet.yaml --server muster.example.org:8443 --admin http://127.0.0.1:8444\n" +
			"  muster load run sensu-4000x8x5s --scale 0.05 --target sensu --server ws://127.0.0.1:8081\n" +
			"  muster load new --agents 2000 --checks 40 --interval 5s >mine.yaml && muster load run mine.yaml",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if slices.Contains(o.goals, "help") {
				return writeGoals(cmd.OutOrStdout())
			}
			for _, text := range o.goals {
				g, err := report.ParseGoal(text)
				if err != nil {
					return err
				}
				o.config.Goals = append(o.config.Goals, g)
			}
			if len(args) == 0 {
				return model.Errorf(model.Invalid, "a scenario is missing").
					WithHint("muster load list shows those that are shipped: muster load run sensu-4000x40x5s --quick; muster load new --agents 2000 >mine.yaml writes one")
			}
			defer o.begin(cmd)()
			return o.run(args[0])
		},
	}
	o.flagsOf(cmd.Flags())
	return cmd
}

// flagsOf adds the flags of muster load run.
func (o *runner) flagsOf(f *pflag.FlagSet) {
	f.BoolVar(&o.quick, "quick", false, "as many agents as this machine carries easily, each as before, for a minute")
	f.Float64Var(&o.scale, "scale", 0, "so many times the agents, such as 0.1; every title says so")
	o.serverFlags(f)
	for _, name := range []string{"server-binary", "server-flag"} {
		f.Lookup(name).Usage = "without --server: " + f.Lookup(name).Usage
	}
	f.StringVar(&o.plain, "server-plain", "", "with --server of Muster: its listener without TLS; else every agent connects with TLS")
	f.StringVar(&o.identities, "identities", "muster-load/identities", "with --server of Muster: folder for keys and certificates of the agents")
	f.StringVar(&o.target, "target", "", "what is loaded instead of what the scenario says: "+strings.Join(scenario.Targets(), ", "))
	o.sensu.Flags(f)
	f.IntVar(&o.loaders, "loaders", 1, "so many loader processes play the run together; the others begin with muster load join")
	f.StringVar(&o.listenJoin, "listen-join", "127.0.0.1:0", "with --loaders: where the others join, an address of this machine, port 0 for any")
	c := &o.config
	f.StringVar(&c.Server, "server", "127.0.0.1:8443", "a server that runs: its listener for agents; without it the run starts a server of its own")
	f.StringVar(&c.AdminURL, "admin", "", "with --server of Muster or --sensu-bridge: its admin listener, such as http://127.0.0.1:8444: metrics, profiles, and the states that the ledger is compared with")
	f.StringVar(&o.pid, "server-pid", "", "with --server: its process, or a file with its number that is read anew each time: CPU, memory and disk are reported")
	f.StringVar(&o.data, "data", "./muster-data", "with --server of Muster: its data folder, for its CA, where it is on this machine and muster load prepare has prepared it")
	f.BoolVar(&o.uncompared, "uncompared", false, "with --server of Muster: do without --admin, nobody looks whether the server holds what it acknowledged")
	f.StringVar(&o.out, "out", "", "the folder of the report; default: muster-load/NAME-TIME")
	f.StringVar(&o.title, "title", "", "a name for the report; default: the scenario's")
	f.StringArrayVar(&o.goals, "goal", nil, "a figure that makes the run fail when it is missed, NAME=LIMIT, such as p99=800ms; may be repeated. --goal help lists the names")
	f.Uint64Var(&o.seed, "seed", 0, "same seed, same nodes and timetable; default: the scenario's")
	f.IntVar(&c.Sources, "sources", 0, "against Muster: loopback addresses to connect from; 0: one per 20,000 agents")
}

// serverFlags adds the flags of every command that starts servers.
func (o *runner) serverFlags(f *pflag.FlagSet) {
	f.StringVar(&o.binary, "server-binary", "", "the program to start as muster server; default: this one")
	f.StringArrayVar(&o.flags, "server-flag", nil, "a word for the server that is started, such as --snapshot-cycle=30s; may be repeated")
	f.DurationVar(&o.config.MaxLag, "max-lag", 0, "generator lag (p99) that makes a run invalid; default: 50ms, of values or directives alone 500ms")
}

// writeGoals lists the figures of --goal and of a scenario's objectives.
func writeGoals(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "NAME\tLIMIT\tUNIT\tKIND\tOF A PHASE\tWHAT IT IS\n")
	for _, f := range scenario.Figures() {
		limit, phase := "at most", ""
		if f.Least {
			limit = "at least"
		}
		if f.Phase {
			phase = "yes"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", f.Name, limit, f.Unit, f.Kind, phase, f.What)
	}
	return w.Flush()
}
