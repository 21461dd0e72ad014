package loadcmd

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/folder"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/sensu"
	"github.com/muster-fleet/muster/internal/model"
)

// sensuFlags are those of target sensu. Passwords are no flags: other people of the
// machine can read those.
type sensuFlags struct {
	api       string
	user      string
	agentUser string
	json      bool
}

func (s *sensuFlags) add(f *pflag.FlagSet) {
	f.StringVar(&s.api, "sensu-api", "", "with --target sensu: the backend's API; default: http://HOST:8080 of the first --server")
	f.StringVar(&s.user, "sensu-user", "admin", "with --target sensu: user of the API, its password in SENSU_PASSWORD")
	f.StringVar(&s.agentUser, "sensu-agent-user", "agent", "with --target sensu: user of the agents, their password in SENSU_AGENT_PASSWORD; default: Sensu's own")
	f.BoolVar(&s.json, "sensu-json", false, "with --target sensu: agents speak JSON instead of protobuf")
}

// seededPassword is what every new backend lets agents in with.
const seededPassword = "P@ssw0rd!"

// againstSensu plays the scenario against Sensu Go backends that run.
func (o *options) againstSensu(ctx context.Context, cmd *cobra.Command, sc *scenario.Scenario, kept *folder.Folder, say func(string, ...any)) (*load.Report, error) {
	if err := load.TargetPlays(sc); err != nil {
		return nil, err
	}
	backends, api, err := o.sensuAddresses(cmd)
	if err != nil {
		return nil, err
	}
	target, err := sensu.New(sc, sensu.Options{Backends: backends, User: o.sensu.agentUser, Password: cmp.Or(os.Getenv("SENSU_AGENT_PASSWORD"), seededPassword),
		Namespace: "default", JSON: o.sensu.json},
		&sensu.API{URL: api, User: o.sensu.user, Password: os.Getenv("SENSU_PASSWORD"), Namespace: "default", Client: &http.Client{Timeout: time.Minute}})
	if err != nil {
		return nil, err
	}
	c := load.Config{Scenario: sc, Goals: o.config.Goals, MaxLag: o.config.MaxLag, Second: kept.Second, Progress: progressOf(cmd.ErrOrStderr(), sc)}
	if c.ServerPID, err = findServer(o.pid); err != nil {
		return nil, err
	}
	say("%s: %s, against %s", sc.FullTitle(), sc.Brief(), strings.Join(backends, " "))
	rep, err := load.RunTarget(ctx, c, target)
	if err != nil {
		return nil, err
	}
	if rep.Title = sc.FullTitle() + ", Sensu Go " + rep.Targeted.Version; o.title != "" {
		rep.Title = o.title
	}
	if label := sc.Label(); label != "" {
		rep.Label = append(rep.Label, label)
	}
	return rep, kept.Save(ctx, rep)
}

// sensuAddresses reads --server, ws:// addresses with commas between them, and --sensu-api.
func (o *options) sensuAddresses(cmd *cobra.Command) (backends []string, api string, err error) {
	wrong := func() error {
		return model.Errorf(model.Invalid, "--server %q: want the agents' listener of a backend that runs", o.config.Server).WithHint("--target sensu --server ws://127.0.0.1:8081")
	}
	if !cmd.Flags().Changed("server") {
		o.config.Server = ""
	}
	for text := range strings.SplitSeq(o.config.Server, ",") {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "ws" && u.Scheme != "wss" || u.Host == "" {
			return nil, "", wrong()
		}
		if api == "" {
			api = "http://" + u.Hostname() + ":8080"
		}
		backends = append(backends, text)
	}
	return backends, strings.TrimSuffix(cmp.Or(o.sensu.api, api), "/"), nil
}
