// Package loadcmd is `muster load`: the load tester's commands. What they do is in
// internal/load and the packages beside it. Start at NewCommand in command.go; each
// command has a file.
package loadcmd

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/store/intentdb"
)

// NewCommand is `muster load`.
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "load",
		Short: "Measure a server with thousands of real agent sessions",
		Long: `Opens real sessions of simulated agents, sends results at a set rate and compares the server's view
with what it sent. bench/README.md says how the recorded results were made.`,
		Example: "  muster load prepare --data DIR --agents 2000 --checks 40 --interval 5s\n" +
			"  muster load run --server 127.0.0.1:8443 --tls --data DIR --agents 2000 --checks 40 --interval 5s",
	}
	cmd.AddCommand(listCommand(), showCommand(), lintCommand(), runCommand(), prepareCommand(), tableCommand(), reportCommand())
	return cmd
}

func runCommand() *cobra.Command {
	var c load.Config
	var title, data, out, pid, halfway string
	var goals []string
	var withTLS bool
	var pages int
	cmd := &cobra.Command{
		Use:           "run",
		Short:         "Open agent sessions, send results at a set rate, compare the view with the ledger",
		Example:       "  muster load run --server 127.0.0.1:8443 --tls --data DIR --agents 2000 --checks 40 --interval 5s",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if withTLS {
				authority, err := openAuthority(data)
				if err != nil {
					return err
				}
				if c.TLS, err = load.Certificates(authority); err != nil {
					return err
				}
			}
			if c.AdminURL != "" {
				c.AdminURL = strings.TrimSuffix(c.AdminURL, "/")
				c.Before = load.HTTPView(c.AdminURL + "/debug/states")
			}
			var err error
			if c.ServerPID, err = findServer(pid); err != nil {
				return err
			}
			for _, text := range goals {
				g, err := load.ParseGoal(text)
				if err != nil {
					return err
				}
				c.Goals = append(c.Goals, g)
			}
			if pages > 0 {
				if c.Pages, err = askPages(c, pages); err != nil {
					return err
				}
			}
			if halfway != "" {
				c.Halfway = func(ctx context.Context) error { return shell(ctx, halfway) }
			}
			c.Log = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelError}))
			c.Progress = progress(cmd.ErrOrStderr())
			rep, err := load.Run(cmd.Context(), c)
			if err != nil {
				return err
			}
			rep.Title = title
			fmt.Fprint(cmd.OutOrStdout(), rep.Text())
			if out != "" {
				if err := rep.Save(out); err != nil {
					return err
				}
			}
			if !rep.OK() {
				return model.Errorf(model.Invalid, "the run failed: %s", strings.Join(rep.Verdict, "; "))
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Server, "server", "127.0.0.1:8443", "the agents' listener: listen, or listen-plain without --tls")
	f.IntVar(&c.Agents, "agents", 100, "agent sessions")
	f.IntVar(&c.Fleet, "fleet", 0, "nodes that send every check once before, in rounds of --agents; the last round stays and is measured. 0: --agents")
	f.IntVar(&c.First, "first", 0, "number of the first agent, where several loaders share a fleet")
	f.IntVar(&c.Checks, "checks", 40, "checks of each agent")
	f.DurationVar(&c.Interval, "interval", 5*time.Second, "interval of every check")
	f.Float64Var(&c.Rate, "rate", 0, "results per second of all agents; replaces --interval")
	f.IntVar(&c.PerFrame, "per-frame", 0, "results that fill a frame; 0: frames leave when their linger is over")
	f.DurationVar(&c.Linger, "linger", 500*time.Millisecond, "how long a result may wait for company")
	f.IntVar(&c.Output, "output-bytes", 100, "length of each output; all differ")
	f.Float64Var(&c.Changes, "status-changes", 0.02, "share of results that change the status; those leave at once")
	f.DurationVar(&c.Duration, "duration", time.Minute, "measured time")
	f.DurationVar(&c.Warmup, "warmup", 5*time.Second, "time before it that is not measured")
	f.DurationVar(&c.MaxLag, "max-lag", 50*time.Millisecond, "generator lag (p99) that makes a run invalid")
	f.BoolVar(&c.Storm, "reconnect-storm", false, "cut all sessions at once, in the middle, and time until all are back")
	f.StringVar(&halfway, "halfway", "", "a shell command for the middle of the run that ends and starts the server, and returns; times are taken from its beginning")
	f.IntVar(&pages, "pages", 0, "requests for each kind of page of events while results flow; needs a session: muster login")
	f.StringArrayVar(&goals, "goal", nil, "a figure that makes the run fail when it is missed, NAME=LIMIT; may be repeated. --goal help lists the names")
	f.IntVar(&c.Spool, "spool-bytes", 0, "bytes that one agent keeps unacknowledged; 0: a GiB shared by all, at most a MiB each")
	f.IntVar(&c.Parallel, "parallel", 512, "connections being opened at once")
	f.IntVar(&c.Senders, "senders", 0, "goroutines that play the timetable; 0: one per 25,000 results/s, at most one per core")
	f.IntVar(&c.Sources, "sources", 0, "loopback addresses to connect from; 0: one per 20,000 agents")
	f.Uint64Var(&c.Seed, "seed", 0, "same seed, same nodes and timetable")
	f.BoolVar(&withTLS, "tls", false, "mutual TLS with certificates of the server's CA (--data)")
	f.StringVar(&data, "data", "./muster-data", "the server's data folder, for its CA")
	f.StringVar(&c.AdminURL, "admin", "", "the server's admin listener, such as http://127.0.0.1:8444: metrics, and the states that the ledger is compared with")
	f.StringVar(&pid, "server-pid", "", "the server's process, or a file with its number that is read anew each time: CPU, memory and disk are reported")
	f.StringVar(&out, "out", "", "write the whole report (run.json) here")
	f.StringVar(&title, "title", "", "a name for the report")
	return cmd
}

// findServer makes the function that names the server's process now.
func findServer(pid string) (func() int, error) {
	if pid == "" {
		return nil, nil
	}
	if n, err := strconv.Atoi(pid); err == nil && n > 0 {
		return func() int { return n }, nil
	}
	read := func() int {
		text, err := os.ReadFile(pid)
		n, bad := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil || bad != nil || n < 1 {
			return 0 // the server is being started anew
		}
		return n
	}
	if read() == 0 {
		return nil, model.Errorf(model.Invalid, "--server-pid %q: want a process number or a file that holds one", pid)
	}
	return read, nil
}

// askPages makes the client for --pages from what `muster login` left.
func askPages(c load.Config, requests int) (*load.Pages, error) {
	path, err := client.ContextPath(os.Getenv)
	if err != nil {
		return nil, err
	}
	known, err := client.LoadContext(path)
	if err != nil {
		return nil, err
	}
	api, err := client.New(known.WithEnv(os.Getenv))
	if err != nil {
		return nil, err
	}
	return &load.Pages{Client: api, Requests: requests, First: c.First, Fleet: max(c.Fleet, c.Agents), Checks: c.Checks,
		Random: rand.New(rand.NewPCG(c.Seed, 1))}, nil
}

// shell runs a command to its end. What it starts may outlive it, and say more.
func shell(ctx context.Context, command string) error {
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%q: %w", command, err)
	}
	return nil
}

func openAuthority(data string) (*pki.Authority, error) {
	dir := filepath.Join(data, "pki")
	if _, err := os.Stat(dir); err != nil {
		return nil, model.Errorf(model.NotFound, "no certificate authority in %s", dir).
			WithHint("start the server once, and give --data its data folder")
	}
	return pki.Open(dir, []string{"localhost"}, time.Now)
}

// progress prints a line every five seconds.
func progress(w io.Writer) func(load.Sample) {
	return func(s load.Sample) {
		if s.Second%5 == 0 {
			fmt.Fprintf(w, "%4d s  %7d sent/s  %7d acknowledged/s  %6d connected  server %.2f cores %5d MiB  loader %.2f cores\n",
				s.Second, s.Sent, s.Acked, s.Connected, s.ServerCPU, s.ServerRSS>>20, s.LoaderCPU)
		}
	}
}

func prepareCommand() *cobra.Command {
	var p load.Preparation
	var data, db string
	cmd := &cobra.Command{
		Use:           "prepare",
		Short:         "Make the nodes and checks that muster load run plays (with the server stopped)",
		Example:       "  muster load prepare --data DIR --agents 2000 --checks 40 --interval 5s",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := prepareFolder(cmd.Context(), data, db, p); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%d nodes and %d checks every %s in namespace %s\n", p.Agents, p.Checks, p.Interval, load.Namespace)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&data, "data", "./muster-data", "the server's data folder")
	f.StringVar(&db, "intent-db", "", "the server's --intent-db, where it has one")
	f.IntVar(&p.Agents, "agents", 100, "nodes")
	f.IntVar(&p.Checks, "checks", 40, "checks of each node")
	f.DurationVar(&p.Interval, "interval", 5*time.Second, "interval of every check")
	f.Uint64Var(&p.Seed, "seed", 0, "as for run")
	return cmd
}

func prepareFolder(ctx context.Context, data, db string, p load.Preparation) error {
	if err := os.MkdirAll(data, 0o700); err != nil {
		return fmt.Errorf("make data folder: %w", err)
	}
	if db == "" {
		db = filepath.Join(data, "intent.db")
	}
	store, err := intentdb.Open(ctx, db, time.Now)
	if err != nil {
		return err
	}
	defer store.Close()
	service := intent.NewService(intent.Options{Store: store, Validate: func(*model.Resource) error { return nil }})
	if err := service.Load(ctx); err != nil {
		return err
	}
	return load.Prepare(ctx, service, p)
}

func tableCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "table FILE…",
		Short:   "Show reports side by side, as Markdown",
		Example: "  muster load table bench/results/rate-16k.json",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := load.Table(args)
			fmt.Fprint(cmd.OutOrStdout(), text)
			return err
		},
	}
}
