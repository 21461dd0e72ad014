// Command spine measures the path of a result alone: `spine serve` is session,
// journal and view without intent, API and reactions; `spine load run` is the load
// tester. Stage figures in bench/results come from it.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/loadcmd"
	"github.com/muster-fleet/muster/internal/load/spine"
)

func main() {
	root := &cobra.Command{Use: "spine", Short: "Measure the path of a result"}
	root.AddCommand(serve(), loadcmd.NewCommand())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve() *cobra.Command {
	var o spine.Options
	var listen, admin string
	cmd := &cobra.Command{
		Use: "serve", Short: "Session, journal and view alone", Args: cobra.NoArgs, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			registry := prometheus.NewRegistry()
			o.Registerer = registry
			o.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
			var err error
			if o.Listen, err = net.Listen("tcp", listen); err != nil {
				return err
			}
			s, err := spine.Open(o)
			if err != nil {
				return err
			}
			mux := http.NewServeMux()
			mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
			mux.HandleFunc("/readyz", func(http.ResponseWriter, *http.Request) {}) // it listens once it is
			mux.Handle("/debug/states", load.StatesHandler(s.View))
			mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
			mux.HandleFunc("/debug/pprof/", pprof.Index)
			server := &http.Server{Addr: admin, Handler: mux}
			go func() {
				<-s.Ready
				_ = server.ListenAndServe()
			}()
			defer server.Close()
			return s.Run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Dir, "data", "./spine-data", "folder of journal and CA")
	f.IntVar(&o.Agents, "agents", 100, "nodes")
	f.IntVar(&o.Checks, "checks", 40, "checks of each")
	f.DurationVar(&o.Interval, "interval", 5*time.Second, "of every check")
	f.Uint64Var(&o.Seed, "seed", 0, "as for load run")
	f.BoolVar(&o.TLS, "tls", false, "mutual TLS")
	f.StringVar(&listen, "listen", "127.0.0.1:9443", "agents")
	f.StringVar(&admin, "admin", "127.0.0.1:9444", "metrics, states, profiles")
	return cmd
}
