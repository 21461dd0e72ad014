package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/config"
	"github.com/muster-fleet/muster/internal/firststart"
	"github.com/muster-fleet/muster/internal/sdnotify"
	"github.com/muster-fleet/muster/internal/serverlog"
)

// UpCommand returns the command `muster up`.
func UpCommand() *cobra.Command {
	demo := 0
	c := &cobra.Command{
		Use:   "up",
		Short: "Run a server and an agent for this machine",
		Long: `Runs a server and an agent for this machine in one process, with all data in one folder. The first
start makes a CA, an administrator (the password is shown once) and a starter set of checks, and writes
the context file by which the other commands find the server. Root is not needed. All settings of muster
server work too: muster server --help.`,
		Example: "  muster up\n  muster up --data /tmp/try --listen :0 --listen-admin 127.0.0.1:0 --demo 300",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, book, log, err := loadSettingsAndLog(cmd, "muster.log")
			if err != nil {
				return err
			}
			path := ""
			if f := cmd.Flags().Lookup("context-file"); f != nil { // this flag is defined for all commands
				path = f.Value.String()
			}
			if path == "" {
				if path, err = client.ContextPath(os.Getenv); err != nil {
					return err
				}
			}
			ctx, stop := handleSignals(cmd.Context(), cmd, book, log)
			defer stop()
			if term.IsTerminal(int(os.Stdout.Fd())) { // the end of the terminal stops Muster, as Ctrl-C does
				var stopHangup context.CancelFunc
				ctx, stopHangup = signal.NotifyContext(ctx, syscall.SIGHUP)
				defer stopHangup()
			}
			up := &Up{
				Config: cfg, Demo: demo, NoDemo: demo == 0 && cmd.Flags().Changed("demo"), Context: path, Program: os.Args[0],
				Out: cmd.OutOrStdout(), Log: log, Book: book,
			}
			return up.Run(ctx)
		},
	}
	config.AddFlags(c.Flags())
	everyday := []string{"data", "listen", "listen-admin", "admin-password-file", "log-level"}
	for _, f := range config.Fields() {
		c.Flags().Lookup(f.Name).Hidden = !slices.Contains(everyday, f.Name)
	}
	c.Flags().IntVar(&demo, "demo", 0, "number of simulated machines in addition to this one; 0 deletes the simulated machines of an earlier start")
	return c
}

// ServerCommand returns the command `muster server`.
func ServerCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "server",
		Short: "Run a server",
		Long: `Runs a server. Settings come from flags, the environment (--data is MUSTER_DATA) or a file
(--config); flags win. SIGHUP reopens the log file and reloads settings that need no restart.`,
		Example: "  muster server --data /var/lib/muster --advertise muster.example.org\n  muster server --config /etc/muster/muster.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, book, log, err := loadSettingsAndLog(cmd, "")
			if err != nil {
				return err
			}
			ctx, stop := handleSignals(cmd.Context(), cmd, book, log)
			defer stop()
			manager := sdnotify.Manager{Socket: os.Getenv("NOTIFY_SOCKET")}
			manager.Status("opens " + cfg.Data + " and replays the journal")
			s, err := Open(ctx, cfg, log)
			if err != nil {
				manager.Status(err.Error())
				return err
			}
			s.logTail, s.manager = book.Tail, manager
			password, err := firststart.CreateAdmin(ctx, s.access, cfg.AdminPasswordFile)
			if err == nil {
				if password != "" {
					fmt.Fprintf(cmd.OutOrStdout(), "user admin, password %s (shown once)\n", password)
				}
				err = s.Run(ctx)
			}
			return errors.Join(err, s.Close())
		},
	}
	config.AddFlags(c.Flags())
	return c
}

// loadSettingsAndLog reads the settings of a server, opens its log and sets up the Go runtime. logFile is the
// default log file in the data folder; empty: standard error.
func loadSettingsAndLog(cmd *cobra.Command, logFile string) (*config.Server, *serverlog.Log, *slog.Logger, error) {
	cfg, err := config.Load(cmd.Flags(), os.Getenv)
	if err != nil {
		return nil, nil, nil, err
	}
	if cfg.LogFile == "" && logFile != "" {
		cfg.LogFile = filepath.Join(cfg.Data, logFile)
	}
	book, err := serverlog.Open(cfg, cmd.ErrOrStderr(), os.Getenv("JOURNAL_STREAM"))
	if err != nil {
		return nil, nil, nil, err
	}
	log := book.Logger(cfg.LogFormat)
	for name, similar := range config.MisspeltVariables(os.Environ()) {
		log.Warn("ignoring an unknown environment variable", "variable", name, "similar", similar)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(heapGrowth)
	}
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.SetDefaultGOMAXPROCS() // another server of this process may have set it
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + spareProcs)
	}
	return cfg, book, log, nil
}

// handleSignals returns a context that ends at SIGINT or SIGTERM. A second signal kills the process. At SIGHUP it
// reopens the log and reads the log level again.
func handleSignals(ctx context.Context, cmd *cobra.Command, book *serverlog.Log, log *slog.Logger) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	go func() {
		for {
			select {
			case <-ctx.Done():
				stop() // a second signal ends the process at once
				signal.Stop(hup)
				return
			case <-hup:
				if err := book.Reopen(); err != nil {
					log.Error("cannot reopen the log", "err", err)
				}
				cfg, err := config.Load(cmd.Flags(), os.Getenv)
				if err != nil {
					log.Error("cannot reload the configuration", "err", err)
					continue
				}
				book.SetLevel(cfg.LogLevel)
				log.Info("log reopened, configuration reloaded", "log-level", cfg.LogLevel)
			}
		}
	}()
	return ctx, stop
}

// spareProcs is the number of goroutines that run at once beyond one for each core. While workers apply values on all cores,
// the runtime starts no other goroutine for up to 10 ms; with one more, the kernel runs a session's reader, a commit or a
// writer of acknowledgements between them (docs/decisions/0029-one-more-processor.md).
const spareProcs = 1

// heapGrowth is the value of GOGC: the heap may grow by this percentage of its live bytes before a collection. It is half
// of Go's default, because most of a server's heap is live (sessions, event states), and the saved memory is worth one
// or two per cent of CPU.
const heapGrowth = 50
