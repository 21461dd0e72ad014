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
	"github.com/muster-fleet/muster/internal/outbound"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/wire"
)

// Server has all settings of a server. SIGHUP reloads a field marked reload:"yes"; every other field needs a restart.
// It has more than 25 fields because each is one flag, one variable and one line of the file, and flags have no
// groups; blank lines divide them by subject.
type Server struct {
	Data    string `name:"data" default:"./muster-data" doc:"Folder for all data of the server."`
	Journal string `name:"journal" doc:"Folder of the journal, to place it on a disk of its own. Default: journal in the data folder."`

	Listen          string   `name:"listen" default:":8443" doc:"Address for people and, unless listen-agents is set, for agents."`
	ListenAgents    string   `name:"listen-agents" doc:"Separate address for agents: they join and connect only there, and it serves nothing else. Agents that joined before need it in their own --server."`
	AgentServers    []string `name:"agent-servers" doc:"Addresses for agents, as HOST:PORT in order of preference, for join tokens and connected agents. Agents learn them with their next session, and try their own list after them. Default: join tokens name the addresses of advertise, and connected agents keep their list."`
	ListenAdmin     string   `name:"listen-admin" default:"127.0.0.1:8444" doc:"Address for /metrics, /livez and /readyz, without authentication; there, root and the server's user can also read profiles, log and settings. off: none."`
	ListenPlain     string   `name:"listen-plain" doc:"Address for agents without TLS, for measurements. Loopback only: the server trusts every client."`
	SensuListen     string   `name:"sensu-listen" doc:"Address for agents of Sensu Go 6, usually :8081, with the certificate of --listen. Default: none. See docs/sensu.md."`
	SensuTLS        string   `name:"sensu-tls" default:"on" doc:"off: Sensu agents connect without TLS, by ws://, and anybody on the network path can read their password and results."`
	SensuClientCA   string   `name:"sensu-client-ca" doc:"File with the authorities of Sensu agents' certificates, in PEM. A certificate with the common name of a user with the role agent replaces the password; one with the name of the machine also proves its identity, and checks with secrets run there. The server reads the file again when it changes. See docs/sensu.md."`
	SensuClientCRL  string   `name:"sensu-client-crl" doc:"File with revocation lists of these authorities, in PEM or DER: the server refuses and disconnects agents with a revoked certificate. It reads the file again when it changes; an expired list remains in force. See docs/sensu.md."`
	ZabbixListen    string   `name:"zabbix-listen" doc:"Address for zabbix_sender and agents of Zabbix, usually :10051, with and without TLS. A namespace names the addresses that may send: spec.zabbixFrom. Default: none. See docs/from-zabbix.md."`
	ZabbixClientCA  string   `name:"zabbix-client-ca" doc:"File with the authorities of the certificates of Zabbix senders and agents, in PEM. A namespace may require a certificate that names the host: spec.zabbixTLS. The server reads the file again when it changes. See docs/from-zabbix.md."`
	ZabbixClientCRL string   `name:"zabbix-client-crl" doc:"File with revocation lists of these authorities, in PEM or DER: the server refuses requests with a revoked certificate. It reads the file again when it changes; an expired list remains in force."`
	RudderListen    string   `name:"rudder-listen" doc:"Address for agents and relays of Rudder, by HTTPS with the certificate of --listen: they send inventories and the reports of runs. A namespace names the addresses that may send: spec.rudderFrom. Default: none. See docs/from-rudder.md."`
	ProxyFrom       []string `name:"proxy-from" doc:"Addresses or networks of load balancers (HAProxy: send-proxy-v2). Their connections must begin with a PROXY header, version 1 or 2, and the server uses its address as the address of the peer. The server trusts no other PROXY headers. See docs/listeners.md."`
	Advertise       []string `name:"advertise" doc:"Names and addresses in the server's certificate and in join tokens. Default: localhost, host name, full name and addresses of this machine."`

	SensuMaxAffected int      `name:"sensu-max-affected" default:"0" doc:"Largest number of nodes that a change by sensuctl may affect. 0: unlimited, as in Sensu; muster audit then marks changes of more than a fifth of the nodes, at least 50."`
	OutboundAllow    []string `name:"outbound-allow" doc:"Addresses, networks and host names that handlers, downloads of Assets, Vault and polls of Zabbix's agents may reach beyond the default. By default they reach no link-local address (169.254.0.0/16, fe80::/10), no other metadata service of a cloud and no listener of this server, and none is redirected to another host."`

	Pending string `name:"pending" default:"on" doc:"on: a machine without a join token may ask to join, and waits for muster node accept. off: the server refuses it."`

	IntentDB  string `name:"intent-db" doc:"Database of intent: a postgres:// address. Default: intent.db (SQLite) in the data folder."`
	HistoryDB string `name:"history-db" doc:"Database of history and the outbox: a postgres:// address. Default: history.db (SQLite) in the data folder."`

	JournalBudget       model.Size     `name:"journal-budget" default:"4GiB" doc:"Maximum size of the journal on disk. Near it the server slows down agents; it deletes nothing early."`
	JournalReserve      model.Size     `name:"journal-reserve" default:"256MiB" doc:"Reserved disk space: a full disk still has space for snapshots and clean-up."`
	SnapshotCycle       model.Duration `name:"snapshot-cycle" default:"10m" doc:"Longest time in which the server writes a snapshot of every partition. A busy server takes at most a minute, so that a start replays little."`
	HistoryBudget       model.Size     `name:"history-budget" default:"4GiB" doc:"Maximum size of history, in history.db or PostgreSQL. Changes, closed problems and sent messages make room for new ones before their retention ends: the oldest of the node that holds the most, in the namespace that holds the most. A SQLite file does not grow while its disk has less free space than journal-reserve (at least 64MiB)."`
	HistoryRetention    model.Duration `name:"history-retention" default:"90d" doc:"Retention of history."`
	ComplianceRetention model.Duration `name:"compliance-retention" default:"400d" doc:"Retention of directive runs in compliance.db or PostgreSQL, which may become as large as history-budget; beyond it the oldest runs of the nodes that hold the most go first. 0s: unlimited."`
	AuditRetention      model.Duration `name:"audit-retention" default:"400d" doc:"Retention of recorded changes of intent. 0s: unlimited."`
	SeriesBudget        model.Size     `name:"series-budget" default:"32GiB" doc:"Maximum size of the blocks with numbers of items; the oldest block makes room for new ones before its retention ends. 0B: unlimited."`
	SeriesRetention     model.Duration `name:"series-retention" default:"31d" doc:"Retention of numbers of items."`
	TrendRetention      model.Duration `name:"trend-retention" default:"400d" doc:"Retention of hourly trends (average, count, maximum, minimum), which the server keeps of numbers that it deletes. 0s: it keeps none."`
	TextBudget          model.Size     `name:"text-budget" default:"8GiB" doc:"Maximum size of the text and log values of items, compressed; the oldest ones of the nodes that have the most make room for new ones before their retention ends. 0B: unlimited. text.db does not grow while its disk has less free space than journal-reserve (at least 64MiB)."`
	TextRetention       model.Duration `name:"text-retention" default:"31d" doc:"Retention of text and log values of items. 0s: unlimited."`
	RemoteWriteURL      string         `name:"remote-write-url" doc:"Address to which the server sends the numbers that it stores, by Prometheus remote write 1.0: https://metrics.example.org/api/v1/write."`
	RemoteWriteAuthFile string         `name:"remote-write-auth-file" doc:"File with USER:PASSWORD or a bearer token for remote-write-url. The server reads it with each request."`
	RemoteWriteCA       string         `name:"remote-write-ca" doc:"File with the authorities of the certificate of remote-write-url, in PEM. Default: those of the system."`
	RemoteWriteMatch    string         `name:"remote-write-match" doc:"Selector of the series that remote write sends, such as {namespace=\"web\"}. Default: all."`
	RemoteWriteBudget   model.Size     `name:"remote-write-budget" default:"1GiB" doc:"Maximum size of the samples that wait for remote-write-url, on disk; the oldest make room for new ones."`
	SeriesRange         model.Duration `name:"series-range" default:"2h" doc:"Time whose numbers are in memory and in files of the head before they become a block. Shorter ranges make smaller blocks, and the same values take more space."`

	KeepaliveInterval model.Duration `name:"keepalive-interval" default:"20s" doc:"Interval of keepalives of an idle agent."`
	KeepaliveTimeout  model.Duration `name:"keepalive-timeout" default:"120s" doc:"Time without a message after which a node is down."`
	CertificateLife   model.Duration `name:"certificate-life" default:"90d" doc:"Lifetime of node certificates. Agents renew them after two thirds of it; a change takes effect with the next renewal."`
	ReconnectGrace    model.Duration `name:"reconnect-grace" default:"90s" doc:"Time added to the deadlines of nodes without a session after a time in which the server did not listen."`

	MaxFrame          model.Size `name:"max-frame" default:"1MiB" doc:"Largest frame an agent may send."`
	MaxUnacked        model.Size `name:"max-unacked" default:"1MiB" doc:"Maximum unacknowledged bytes of one agent."`
	MaxOutput         model.Size `name:"max-output" default:"1MiB" doc:"Largest output of one result; a larger one is refused."`
	NodeStates        int        `name:"node-states" default:"1000" doc:"Maximum number of event states of one node."`
	NodeRate          float64    `name:"node-rate" default:"1000" unit:"results/s" doc:"Maximum average rate of results of one node, and of ten times as many values of items."`
	NamespaceRate     float64    `name:"namespace-rate" default:"0" unit:"results/s" doc:"Maximum rate of results of all nodes of one namespace together; 0: no limit."`
	NodeByteRate      model.Size `name:"node-byte-rate" default:"1MiB" unit:"bytes/s" doc:"Maximum average rate of bytes that one node, or one sender of alerts, sends. A node above it is delayed; nothing is lost."`
	NamespaceByteRate model.Size `name:"namespace-byte-rate" default:"0B" unit:"bytes/s" doc:"Maximum rate of bytes of all nodes and senders of one namespace together; 0B: no limit."`
	MaxLabels         int        `name:"max-labels" default:"64" doc:"Maximum number of labels of one node."`

	ProblemLink string `name:"problem-link" doc:"Link in messages about a problem: an address of a dashboard or wiki with {problem}, {node}, {check} and {namespace}. Default: no link."`

	Queues []string `name:"queues" doc:"Capacities and policies of the queues: NAME=CAPACITY or NAME=POLICY, as in docs/reference/queues.md. Their depths: muster get queues."`

	WatchdogURL      string         `name:"watchdog-url" doc:"Address of a dead-man's switch (https://…). The server calls it by POST after each synthetic result that passed from a session to a delivery. The switch raises the alarm when the calls stop. Default: none; the event muster-watchdog exists in any case."`
	WatchdogInterval model.Duration `name:"watchdog-interval" default:"60s" doc:"Interval of synthetic results."`

	AdminPasswordFile string `name:"admin-password-file" doc:"File with the password of the first administrator. Default: a random password, shown once."`

	LogLevel  string `name:"log-level" default:"info" reload:"yes" doc:"debug, info, warn or error."`
	LogFormat string `name:"log-format" default:"text" doc:"text or json."`
	LogFile   string `name:"log-file" doc:"File for the log; SIGHUP opens it again, for logrotate. Default: standard error; for muster up, muster.log in the data folder."`
}

// Proxies returns the networks of trusted load balancers from the setting proxy-from.
func (s *Server) Proxies() []netip.Prefix {
	list, err := model.ParseNetworks(s.ProxyFrom)
	if err != nil {
		panic("BUG: unchecked settings: " + err.Error())
	}
	return list
}

// validate returns an error for each group of contradicting settings.
func (s *Server) validate() []error {
	var problems []error
	wrong := func(is bool, format string, args ...any) {
		if is {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	wrong(s.Pending != "on" && s.Pending != "off", "pending: %q: expected on or off", s.Pending)
	wrong(s.SeriesRange < model.Duration(time.Minute) || s.SeriesRange > model.Duration(24*time.Hour), "series-range (%s) must be at least 1m and at most 24h", s.SeriesRange)
	wrong(s.SeriesRetention < 2*s.SeriesRange, "series-retention (%s) must be at least twice series-range (%s)", s.SeriesRetention, s.SeriesRange)
	wrong(s.WatchdogInterval < model.Duration(time.Second), "watchdog-interval (%s) must be at least 1s", s.WatchdogInterval)
	u, err := url.Parse(s.WatchdogURL)
	wrong(s.WatchdogURL != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https"),
		"watchdog-url must be an address such as https://hc.example.org/ping/…")
	wrong(s.KeepaliveTimeout <= s.KeepaliveInterval,
		"keepalive-timeout (%s) must be longer than keepalive-interval (%s)", s.KeepaliveTimeout, s.KeepaliveInterval)
	wrong(s.CertificateLife < model.Duration(10*time.Second) || s.CertificateLife > model.Duration(10*365*24*time.Hour),
		"certificate-life (%s) must be between 10s and 3650d", s.CertificateLife)
	wrong(s.JournalBudget < 64<<20, "journal-budget (%s) must be at least 64MiB", s.JournalBudget)
	wrong(s.HistoryBudget < 64<<20, "history-budget (%s) must be at least 64MiB", s.HistoryBudget)
	wrong(s.RemoteWriteURL != "" && s.RemoteWriteBudget < 64<<20, "remote-write-budget (%s) must be at least 64MiB", s.RemoteWriteBudget)
	wrong(s.JournalReserve >= s.JournalBudget, "journal-reserve (%s) must be smaller than journal-budget (%s)", s.JournalReserve, s.JournalBudget)
	for name, d := range map[string]model.Duration{"history-retention": s.HistoryRetention, "compliance-retention": s.ComplianceRetention, "text-retention": s.TextRetention, "audit-retention": s.AuditRetention} {
		wrong(d < model.Duration(24*time.Hour) && (d != 0 || name == "history-retention"), "%s (%s) must be at least 1d", name, d)
	}
	wrong(s.MaxFrame < 64<<10, "max-frame (%s) must be at least 64KiB", s.MaxFrame)
	wrong(s.MaxFrame > s.MaxUnacked, "max-frame (%s) must not be larger than max-unacked (%s)", s.MaxFrame, s.MaxUnacked)
	wrong(s.MaxFrame > wire.MaxFrame, "max-frame (%s) must not be larger than the protocol's %s", s.MaxFrame, model.Size(wire.MaxFrame))
	wrong(s.MaxOutput > model.MaxOutputBytes, "max-output (%s) must not be larger than %s", s.MaxOutput, model.Size(model.MaxOutputBytes))
	if s.ListenPlain != "" {
		host, _, err := net.SplitHostPort(s.ListenPlain)
		if ip := net.ParseIP(host); err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			wrong(true, "listen-plain (%s) must be a loopback address such as 127.0.0.1:8445: the server trusts agents there without a certificate", s.ListenPlain)
		}
	}
	wrong(s.SensuTLS != "on" && s.SensuTLS != "off", "sensu-tls %q: expected on or off", s.SensuTLS)
	wrong(s.SensuTLS == "off" && s.SensuClientCA != "",
		"sensu-client-ca (%s) with sensu-tls off: without TLS agents send no certificate", s.SensuClientCA)
	wrong(s.ZabbixClientCRL != "" && s.ZabbixClientCA == "",
		"zabbix-client-crl (%s) without zabbix-client-ca: the authorities of the list are missing", s.ZabbixClientCRL)
	wrong(s.SensuClientCRL != "" && s.SensuClientCA == "",
		"sensu-client-crl (%s) without sensu-client-ca: the authorities of the list are missing", s.SensuClientCRL)
	wrong(s.SensuMaxAffected < 0, "sensu-max-affected (%d) must be 0 or more", s.SensuMaxAffected)
	for _, name := range s.Advertise {
		if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil || !strings.ContainsAny(name, ":/") {
			continue
		}
		err := model.CheckHostPort(name)
		wrong(err != nil, "advertise: %q: expected names and addresses, with a port where it differs from --listen: muster.example.org,10.0.0.7,[fd00::7]:443", name)
	}
	for _, address := range s.AgentServers {
		err := model.CheckHostPort(address)
		wrong(err != nil, "agent-servers: %w", err)
	}
	wrong(len(s.AgentServers) > wire.MaxServers, "agent-servers: %d addresses, at most %d", len(s.AgentServers), wire.MaxServers)
	_, err = model.ParseNetworks(s.ProxyFrom)
	wrong(err != nil, "proxy-from: %w", err)
	_, err = outbound.Parse(s.OutboundAllow, nil)
	wrong(err != nil, "outbound-allow: %w", err)
	_, err = queue.ParseSettings(s.Queues)
	wrong(err != nil, "queues: %w", err)
	for _, db := range []struct{ name, address string }{{"intent-db", s.IntentDB}, {"history-db", s.HistoryDB}} {
		wrong(db.address != "" && !strings.HasPrefix(db.address, "postgres://") && !strings.HasPrefix(db.address, "postgresql://"),
			"%s: expected postgres://USER:PASSWORD@HOST:5432/DATABASE; default: a file in the data folder", db.name)
	}
	wrong(s.ProblemLink != "" && !strings.HasPrefix(s.ProblemLink, "https://") && !strings.HasPrefix(s.ProblemLink, "http://"),
		"problem-link: %q: expected an address such as https://wiki.example.org/problems?id={problem}", s.ProblemLink)
	wrong(!slices.Contains([]string{"debug", "info", "warn", "error"}, strings.ToLower(s.LogLevel)),
		"log-level %q: expected debug, info, warn or error", s.LogLevel)
	wrong(s.LogFormat != "text" && s.LogFormat != "json", "log-format %q: expected text or json", s.LogFormat)
	return problems
}
