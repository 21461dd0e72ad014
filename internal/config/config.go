// Package config is the server's configuration: one struct whose tags hold each
// field's name, default, unit and meaning. The same tags make the flags, read the
// environment and the file, and write docs/reference/configuration.md.
//
// Flags win over the environment (MUSTER_…), that over the file, that over the
// defaults. Unknown keys are errors; all problems are reported at once.
// Start reading at config.go.
package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/wire"
)

// Server holds all settings of a server. SIGHUP reloads a field marked reload:"yes"; every other one needs a restart. It has
// more than 25 fields because each is one flag, one variable and one line of the file, and flags have no groups; blank
// lines divide them by subject.
type Server struct {
	Data    string `name:"data" default:"./muster-data" doc:"Folder for everything that Muster keeps."`
	Journal string `name:"journal" doc:"Folder of the journal, to place it on a disk of its own. Default: journal in the data folder."`

	Listen         string   `name:"listen" default:":8443" doc:"Address for people and, unless listen-agents is set, for agents."`
	ListenAgents   string   `name:"listen-agents" doc:"A separate address for agents: they join and connect there and nowhere else, and nothing else is answered there. Agents that joined before are told of it by their own --server."`
	AgentServers   []string `name:"agent-servers" doc:"Where agents connect, as HOST:PORT in order of preference, for join tokens and for agents that are connected: they learn it with their next session, and try their own list behind it. Default: join tokens name what advertise says, and connected agents stay with what they have."`
	ListenAdmin    string   `name:"listen-admin" default:"127.0.0.1:8444" doc:"Address for /metrics, /livez and /readyz, without authentication; profiles, log and settings are answered there to every user of this machine. off: none."`
	ListenPlain    string   `name:"listen-plain" doc:"Address for agents without TLS, for measurements. Loopback only: whoever connects is believed."`
	SensuListen    string   `name:"sensu-listen" doc:"Address for agents of Sensu Go 6, usually :8081, with the certificate of --listen. Default: none. See docs/sensu.md."`
	SensuTLS       string   `name:"sensu-tls" default:"on" doc:"off: Sensu's agents come without TLS, by ws://, and whoever listens on the way reads their password and results."`
	SensuClientCA  string   `name:"sensu-client-ca" doc:"File with authorities of Sensu's agents' certificates, in PEM. One whose common name is that of a user with the role agent is as good as its password; one that names the machine proves who that is, and checks with secrets run there. It is read again when it changes. See docs/sensu.md."`
	SensuClientCRL string   `name:"sensu-client-crl" doc:"File with revocation lists of these authorities, in PEM or DER: agents whose certificates they name are refused, and let go. It is read again when it changes; a list that is out of date holds on. See docs/sensu.md."`
	ProxyFrom      []string `name:"proxy-from" doc:"Addresses or networks of balancers (HAProxy: send-proxy-v2). Their connections must begin with a PROXY header, version 1 or 2, whose address is then the peer's everywhere; nobody else's is believed. See docs/listeners.md."`
	Advertise      []string `name:"advertise" doc:"Names and addresses in the server's certificate and in join tokens. Default: localhost, host name, full name and addresses of this machine."`

	Pending string `name:"pending" default:"on" doc:"on: a machine without a join token may ask to be let in, and waits for muster node accept. off: it is refused."`

	IntentDB  string `name:"intent-db" doc:"Where intent is kept: a postgres:// address. Default: intent.db (SQLite) in the data folder."`
	HistoryDB string `name:"history-db" doc:"Where history and the outbox are kept: a postgres:// address. Default: history.db (SQLite) in the data folder."`

	JournalBudget    model.Size     `name:"journal-budget" default:"4GiB" doc:"What the journal may use on disk. Near it agents are slowed down; nothing is deleted early."`
	JournalReserve   model.Size     `name:"journal-reserve" default:"256MiB" doc:"Disk space held back, so that a full disk still allows snapshots and clean-up."`
	SnapshotCycle    model.Duration `name:"snapshot-cycle" default:"60s" doc:"Time in which every partition is snapshotted once."`
	HistoryRetention model.Duration `name:"history-retention" default:"90d" doc:"How long history is kept."`
	AuditRetention   model.Duration `name:"audit-retention" default:"400d" doc:"How long recorded changes of intent are kept. 0s: for ever."`

	KeepaliveInterval model.Duration `name:"keepalive-interval" default:"20s" doc:"How often an agent says that it is there, when it has nothing else to say."`
	KeepaliveTimeout  model.Duration `name:"keepalive-timeout" default:"120s" doc:"Silence after which a node is reported."`
	CertificateLife   model.Duration `name:"certificate-life" default:"90d" doc:"How long the certificates of nodes are good for. Agents renew by themselves from two thirds of it on; what is changed is in force with the next renewal."`
	ReconnectGrace    model.Duration `name:"reconnect-grace" default:"90s" doc:"Added to the deadlines of nodes without a session after the server did not listen."`

	MaxFrame      model.Size `name:"max-frame" default:"1MiB" doc:"Largest frame an agent may send."`
	MaxUnacked    model.Size `name:"max-unacked" default:"1MiB" doc:"Bytes that one agent may have on the way, unacknowledged."`
	MaxOutput     model.Size `name:"max-output" default:"1MiB" doc:"Largest output of one result; a larger one is refused."`
	NodeStates    int        `name:"node-states" default:"1000" doc:"Event states that one node may have."`
	NodeRate      float64    `name:"node-rate" default:"1000" unit:"results/s" doc:"Results that one node may send on average."`
	NamespaceRate float64    `name:"namespace-rate" default:"0" unit:"results/s" doc:"Results that the nodes of one namespace may send together; 0: no limit."`
	MaxLabels     int        `name:"max-labels" default:"64" doc:"Labels that one node may have."`

	ProblemLink string `name:"problem-link" doc:"Where messages about a problem lead: an address with {problem}, {node}, {check} and {namespace} in it, of a dashboard or wiki. Default: messages have no link."`

	Queues []string `name:"queues" doc:"Bounds of the queues inside: NAME=CAPACITY or NAME=POLICY, as in docs/reference/queues.md. muster get queues shows how full they are."`

	WatchdogURL      string         `name:"watchdog-url" doc:"Address of a dead-man's switch (https://…) that is called by POST each time a synthetic result has gone the whole way, from a session to a delivery. It alarms when nobody calls it any more. Default: none; muster-watchdog is an event in any case."`
	WatchdogInterval model.Duration `name:"watchdog-interval" default:"60s" doc:"How often a synthetic result is sent."`

	AdminPasswordFile string `name:"admin-password-file" doc:"File with the password of the first administrator. Default: one is made and shown once."`

	LogLevel  string `name:"log-level" default:"info" reload:"yes" doc:"debug, info, warn or error."`
	LogFormat string `name:"log-format" default:"text" doc:"text or json."`
	LogFile   string `name:"log-file" doc:"File for the log; SIGHUP opens it anew, for logrotate. Default: standard error; for muster up, muster.log in the data folder."`
}

// Proxies are the networks of ProxyFrom.
func (s *Server) Proxies() []netip.Prefix {
	list, err := networks(s.ProxyFrom)
	if err != nil {
		panic("BUG: settings that were not checked: " + err.Error())
	}
	return list
}

// networks reads addresses and networks; an address is a network of one.
func networks(words []string) ([]netip.Prefix, error) {
	var list []netip.Prefix
	for _, word := range words {
		if address, err := netip.ParseAddr(word); err == nil && address.Zone() == "" {
			address = address.Unmap()
			list = append(list, netip.PrefixFrom(address, address.BitLen()))
			continue
		}
		network, err := netip.ParsePrefix(word)
		if err != nil {
			return nil, fmt.Errorf("%q: want addresses or networks such as 10.0.0.7, 10.0.0.0/24 or fd00::/64, comma separated", word)
		}
		if network.Bits() == 0 {
			return nil, fmt.Errorf("%q: whoever connects would be believed: name the balancers", word)
		}
		list = append(list, network.Masked())
	}
	return list, nil
}

// check returns the errors of settings that contradict each other.
func (s *Server) check() []error {
	var problems []error
	wrong := func(is bool, format string, args ...any) {
		if is {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	wrong(s.Pending != "on" && s.Pending != "off", "pending: %q: want on or off", s.Pending)
	wrong(s.WatchdogInterval < model.Duration(time.Second), "watchdog-interval (%s) must be at least 1s", s.WatchdogInterval)
	u, err := url.Parse(s.WatchdogURL)
	wrong(s.WatchdogURL != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https"),
		"watchdog-url must be an address such as https://hc.example.org/ping/…")
	wrong(s.KeepaliveTimeout <= s.KeepaliveInterval,
		"keepalive-timeout (%s) must be longer than keepalive-interval (%s)", s.KeepaliveTimeout, s.KeepaliveInterval)
	wrong(s.CertificateLife < model.Duration(10*time.Second) || s.CertificateLife > model.Duration(10*365*24*time.Hour),
		"certificate-life (%s) must be between 10s and 3650d", s.CertificateLife)
	wrong(s.JournalBudget < 64<<20, "journal-budget (%s) must be at least 64MiB", s.JournalBudget)
	wrong(s.JournalReserve >= s.JournalBudget, "journal-reserve (%s) must be smaller than journal-budget (%s)", s.JournalReserve, s.JournalBudget)
	for name, d := range map[string]model.Duration{"history-retention": s.HistoryRetention, "audit-retention": s.AuditRetention} {
		wrong(d < model.Duration(24*time.Hour) && (d != 0 || name == "history-retention"), "%s (%s) must be at least 1d", name, d)
	}
	wrong(s.MaxFrame < 64<<10, "max-frame (%s) must be at least 64KiB", s.MaxFrame)
	wrong(s.MaxFrame > s.MaxUnacked, "max-frame (%s) must not be larger than max-unacked (%s)", s.MaxFrame, s.MaxUnacked)
	wrong(s.MaxFrame > wire.MaxFrame, "max-frame (%s) must not be larger than the protocol's %s", s.MaxFrame, model.Size(wire.MaxFrame))
	wrong(s.MaxOutput > model.MaxOutputBytes, "max-output (%s) must not be larger than %s", s.MaxOutput, model.Size(model.MaxOutputBytes))
	if s.ListenPlain != "" {
		host, _, err := net.SplitHostPort(s.ListenPlain)
		if ip := net.ParseIP(host); err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			wrong(true, "listen-plain (%s) must be a loopback address such as 127.0.0.1:8445: agents are believed there without proof", s.ListenPlain)
		}
	}
	wrong(s.SensuTLS != "on" && s.SensuTLS != "off", "sensu-tls %q: want on or off", s.SensuTLS)
	wrong(s.SensuTLS == "off" && s.SensuClientCA != "",
		"sensu-client-ca (%s) with sensu-tls off: without TLS nobody shows a certificate", s.SensuClientCA)
	wrong(s.SensuClientCRL != "" && s.SensuClientCA == "",
		"sensu-client-crl (%s) without sensu-client-ca: whose certificates are they?", s.SensuClientCRL)
	for _, name := range s.Advertise {
		if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil || !strings.ContainsAny(name, ":/") {
			continue
		}
		err := model.CheckHostPort(name)
		wrong(err != nil, "advertise: %q: want names and addresses, with a port where it differs from --listen: muster.example.org,10.0.0.7,[fd00::7]:443", name)
	}
	for _, address := range s.AgentServers {
		err := model.CheckHostPort(address)
		wrong(err != nil, "agent-servers: %w", err)
	}
	wrong(len(s.AgentServers) > wire.MaxServers, "agent-servers: %d addresses, at most %d", len(s.AgentServers), wire.MaxServers)
	_, err = networks(s.ProxyFrom)
	wrong(err != nil, "proxy-from: %w", err)
	_, err = queue.ParseSettings(s.Queues)
	wrong(err != nil, "queues: %w", err)
	for _, db := range []struct{ name, address string }{{"intent-db", s.IntentDB}, {"history-db", s.HistoryDB}} {
		wrong(db.address != "" && !strings.HasPrefix(db.address, "postgres://") && !strings.HasPrefix(db.address, "postgresql://"),
			"%s: want postgres://USER:PASSWORD@HOST:5432/DATABASE; left out, it is a file in the data folder", db.name)
	}
	wrong(s.ProblemLink != "" && !strings.HasPrefix(s.ProblemLink, "https://") && !strings.HasPrefix(s.ProblemLink, "http://"),
		"problem-link: %q: want an address such as https://wiki.example.org/problems?id={problem}", s.ProblemLink)
	wrong(!slices.Contains([]string{"debug", "info", "warn", "error"}, strings.ToLower(s.LogLevel)),
		"log-level %q: want debug, info, warn or error", s.LogLevel)
	wrong(s.LogFormat != "text" && s.LogFormat != "json", "log-format %q: want text or json", s.LogFormat)
	return problems
}
