package loadcmd

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
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
	"github.com/muster-fleet/muster/internal/load/subject"
	"github.com/muster-fleet/muster/internal/model"
)

// sensuFlags are those of target sensu. Passwords are no flags: other people of the
// machine can read those.
type sensuFlags struct {
	api       string
	user      string
	agentUser string
	json      bool
	bridge    bool
	ca        string
}

func (s *sensuFlags) add(f *pflag.FlagSet) {
	f.StringVar(&s.api, "sensu-api", "", "with --target sensu: the backend's API; default: http://HOST:8080 of the first --server")
	f.StringVar(&s.user, "sensu-user", "admin", "with --target sensu: user of the API, its password in SENSU_PASSWORD")
	f.StringVar(&s.agentUser, "sensu-agent-user", "agent", "with --target sensu: user of the agents, their password in SENSU_AGENT_PASSWORD; default: Sensu's own")
	f.BoolVar(&s.bridge, "sensu-bridge", false, "with --target sensu: the agents come to a Muster server (--sensu-listen there), which is prepared and asked with the login's context")
	f.BoolVar(&s.json, "sensu-json", false, "with --target sensu: agents speak JSON instead of protobuf")
	f.StringVar(&s.ca, "sensu-ca", "", "with --target sensu: file (PEM) of the authorities that wss:// and https:// addresses are checked by; default: the system's")
}

// seededPassword is what every new backend lets agents in with.
const seededPassword = "P@ssw0rd!"

// againstSensu plays the scenario against Sensu Go backends that run.
func (o *options) againstSensu(ctx context.Context, cmd *cobra.Command, sc *scenario.Scenario, kept *folder.Folder, say func(string, ...any)) (*load.Report, error) {
	backends, api, err := o.sensuAddresses(cmd)
	if err != nil {
		return nil, err
	}
	secured, err := o.sensu.tls()
	if err != nil {
		return nil, err
	}
	var backend sensu.Backend = &sensu.API{URL: api, User: o.sensu.user, Password: os.Getenv("SENSU_PASSWORD"), Namespace: "default",
		Client: &http.Client{Timeout: time.Minute, Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: secured}}}
	system := "Sensu Go "
	if o.sensu.bridge {
		ours, _, err := login(cmd, "")
		if err != nil {
			return nil, err
		}
		backend, system = &sensu.Bridge{Client: ours, Namespace: "default"}, ""
	}
	target, err := sensu.New(sc, sensu.Options{Backends: backends, User: o.sensu.agentUser, Password: cmp.Or(os.Getenv("SENSU_AGENT_PASSWORD"), seededPassword),
		Namespace: "default", JSON: o.sensu.json, TLS: secured}, backend)
	if err != nil {
		return nil, err
	}
	see, err := o.listenLoader(ctx, say)
	if err != nil {
		return nil, err
	}
	view := progressOf(cmd.ErrOrStderr(), sc)
	c := load.Config{Scenario: sc, Goals: o.config.Goals, MaxLag: o.config.MaxLag, Second: kept.Second, Progress: func(s load.Sample) { kept.Sample(s); see(s); view.Show(s) }}
	defer o.stops.heed(&c, view)()
	var hosts []string
	for _, b := range backends {
		_, host, _ := strings.Cut(b, "://")
		hosts = append(hosts, strings.TrimSuffix(host, "/"))
	}
	c.Server = strings.Join(hosts, ",")
	if c.ServerPID, err = findServer(o.pid); err != nil {
		return nil, err
	}
	say("%s: %s, against %s", sc.FullTitle(), sc.Brief(), strings.Join(backends, " "))
	environment := subject.Here(ctx, "") // the backend's folder is nobody's to say
	rep, err := load.RunTarget(ctx, c, target)
	if err != nil {
		return nil, err
	}
	environment.Packages = map[string]string{"sensu-backend": rep.Targeted.Version}
	rep.Environment = environment
	o.entitle(rep, sc, sc.FullTitle()+", "+system+rep.Targeted.Version)
	rep.Again = o.playedWith(cmd)
	return rep, kept.Save(ctx, rep)
}

// tls is by which authorities backends are checked; nil: the system's.
func (s *sensuFlags) tls() (*tls.Config, error) {
	if s.ca == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(s.ca)
	if err != nil {
		return nil, model.Errorf(model.Invalid, "--sensu-ca: %w", err)
	}
	known := x509.NewCertPool()
	if !known.AppendCertsFromPEM(pem) {
		return nil, model.Errorf(model.Invalid, "--sensu-ca %s: holds no certificate", s.ca).WithHint("a file that begins with -----BEGIN CERTIFICATE-----")
	}
	return &tls.Config{RootCAs: known}, nil
}

// sensuAddresses reads --server, ws:// or wss:// addresses with commas between them, and --sensu-api.
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
		if len(backends) > 0 && !strings.HasPrefix(backends[0], u.Scheme+":") {
			return nil, "", model.Errorf(model.Invalid, "--server %q: ws:// and wss:// in one run", o.config.Server).WithHint("name backends of one kind: the report says how agents came")
		}
		backends = append(backends, text)
	}
	return backends, strings.TrimSuffix(cmp.Or(o.sensu.api, api), "/"), nil
}
