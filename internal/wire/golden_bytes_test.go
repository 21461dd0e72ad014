package wire

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

var goldenNode = uuid.MustParse("0192f0c4-7e2a-7b1d-9c55-3f6a1e0d4b21")

// goldenDefinition returns the test check whose encoding is in the golden files.
func goldenDefinition() *model.Definition {
	return (&model.CheckDefinition{
		Definition: model.Definition{ID: 17, Unit: 5, Namespace: 2, Name: "disk"},
		Command:    &model.Command{Shell: `check_disk -w {{ .props.disk_warn | default "20%" }} -c 10% -p /`},
		Interval:   time.Minute, Timeout: time.Minute, TTL: 3 * time.Minute,
		Env: map[string]string{"LC_ALL": "C", "PATH": "/usr/lib/nagios/plugins:/usr/bin"}, MaxOutput: 65536,
		FailAfter: 3, RecoverAfter: 1, Severities: [4]model.Severity{0, 2, 4, 3}, Handlers: []string{"on-call"},
	}).ToDefinition()
}

// pointerTo returns a pointer to a number, because thresholds in test data need pointers.
func pointerTo(v float64) *float64 { return &v }

// otherGoldenDefinition returns a test check with values in all fields that goldenDefinition leaves empty.
func otherGoldenDefinition() *model.Definition {
	return (&model.CheckDefinition{
		Definition: model.Definition{Unit: 6, Namespace: 2, Name: "jobs"}, Command: &model.Command{Argv: []string{"check_sql"}}, Cron: "*/5 * * * *", TimeZone: "Europe/Paris",
		Timeout: time.Minute, RunAs: "postgres", MaxOutput: 65536, FailAfter: 1, RecoverAfter: 1, FlapStart: 50, FlapEnd: 25, Route: "on-call",
		Stdin:   "SELECT count(*) FROM {{ .props.table }};\n",
		Hooks:   []model.Hook{{Name: "locks", When: []string{"critical", "127"}, Command: &model.Command{Shell: "show-locks | head"}, Timeout: model.Duration(5 * time.Second)}},
		Metrics: &model.Metrics{Format: "graphite", Tags: map[string]string{"team": "db"}},
		Thresholds: []model.Threshold{{Metric: "jobs.waiting", Tags: map[string]string{"queue": "mail"}, Warning: &model.Bounds{Max: pointerTo(0)},
			Critical: &model.Bounds{Min: pointerTo(-1), Max: pointerTo(1000)}, Missing: "unknown"}},
		Except: []model.Span{{Zone: "Europe/Paris", Spans: []model.WindowSpan{{During: "22:00-07:00"}, {Cron: "0 2 * * sun", For: model.Duration(time.Hour)}}}},
	}).ToDefinition()
}

// templateDefinition returns the test Template whose encoding is in the golden files.
func templateDefinition() *model.Definition {
	zero := "0"
	return (&model.TemplateDefinition{
		Definition: model.Definition{ID: 19, Unit: 7, Namespace: 2, Name: "linux"},
		Items: []model.Item{
			{Key: "net.if.in[eth0]", Type: "unsigned", Interval: "10s", Unit: "bps", Tags: map[string]string{"if": "eth0"},
				Steps: []model.Step{{Name: "changePerSecond"}, {Name: "multiplier", Parameters: []string{"8"}, OnFail: &model.OnFail{Value: &zero}}}},
			{Key: "orders", Interval: "1m", HTTP: &model.HTTPRequest{URL: "https://shop/{$X}", Query: map[string]string{"state": "open"}, Method: "POST", Headers: map[string]string{"X-Token": "{$TOKEN}"},
				Body: "{}", Status: "200-299", NoRedirects: true, Retrieve: "both", AsJSON: true, User: "shop", Password: "{$PASSWORD}", Insecure: true, Timeout: model.Duration(10 * time.Second)}},
			{Key: "system.cpu.load", Interval: "1m", ValueMap: "load", NoHistory: true},
			{Key: "temperature", NotCollected: "IPMI"}, {Key: "temperature.sent", Trapper: true},
			{Key: "temperature.twice", Interval: "1m", Formula: "2*last(//temperature.sent)"},
			{Key: "traffic", Type: "float", From: "net.if.in[eth0]", Steps: []model.Step{{Name: "jsonPath", Parameters: []string{"$.x"}, OnFail: &model.OnFail{Error: "no x"}}}},
			{Key: "zabbix[uptime]", Interval: "1m", Internal: true},
		},
		Triggers: []model.DefinitionTrigger{{Name: "load is high", Expression: "last(//system.cpu.load)>4", Recovery: "last(//system.cpu.load)<3", Severity: model.Average,
			Handlers: []string{"on-call"}, Runbook: "https://wiki.example.org/load",
			Tags: map[string]string{"scope": "performance"}, Description: "The machine has more work than processors.", OperationalData: "load {ITEM.LASTVALUE1}"}, {Name: "traffic", Expression: "last(//traffic)>1", Route: "network", DependsOn: []string{"load is high"}}},
		Rules: []model.DefinitionRule{{
			Key: "temperature", Paths: map[string]string{"{#NAME}": "$.name"}, DeleteAfter: model.Forever,
			Filter: &model.DiscoveryFilter{Formula: "A or B", Conditions: []model.DiscoveryCondition{{Macro: "{#NAME}", Matches: &zero}, {ID: "B", Macro: "{#TYPE}", Exists: new(bool)}}},
			Items:  []model.Item{{Key: "fan[{#NAME}]", From: "temperature", Disabled: true}},
			Overrides: []model.DiscoveryOverride{{Name: "first", Stop: true, Items: []model.ItemOverride{{Keys: []string{"fan[{#NAME}]"}, Discover: new(true), Tags: map[string]string{"fan": "{#NAME}"}}},
				Triggers: []model.TriggerOverride{{Severity: "high", Tags: map[string]string{"fan": "{#NAME}"}}}}},
			Triggers: []model.DefinitionTrigger{{Name: "{#NAME} stands still", Expression: "last(//fan[{#NAME}])=0", Disabled: true}},
		}},
		Macros:    map[string]string{"{$MAX}": "4"},
		Secrets:   []model.DefinitionSecret{{Env: "{$TOKEN}", Name: "default/token", AgentFile: "token"}, {Env: "{$PASSWORD}", Name: "default/password"}},
		ValueMaps: []model.ValueMap{{Name: "load", Mappings: []model.ValueMapping{{Value: "0", Text: "idle"}, {Type: "greaterOrEqual", Value: "4", Text: "busy"}}}},
	}).ToDefinition()
}

// ruleGroupDefinition returns the test RuleGroup whose encoding is in the golden files.
func ruleGroupDefinition() *model.Definition {
	return (&model.RuleGroupDefinition{
		Definition: model.Definition{ID: 22, Unit: 10, Namespace: 2, Name: "load"}, Interval: 10 * time.Second, QueryOffset: time.Minute, Limit: 100, Labels: map[string]string{"site": "east"},
		Rules: []model.Rule{
			{Record: "site:load:avg", Expr: "avg(system_cpu_load)"},
			{Alert: "LoadIsHigh", Expr: "system_cpu_load > 4", For: model.Duration(time.Minute), KeepFiringFor: model.Duration(time.Hour),
				Labels: map[string]string{"severity": "critical"}, Annotations: map[string]string{"summary": "load {{ $value }}"}},
		},
		Handlers: []string{"on-call"}, Route: "night",
	}).ToDefinition()
}

// directiveDefinition returns the test directive whose encoding is in the golden files.
func directiveDefinition() *model.Definition {
	return (&model.DirectiveDefinition{
		Definition: model.Definition{ID: 20, Unit: 8, Namespace: 2, Name: "sshd"}, Technique: "default/sshd", Mode: model.ModeEnforce,
		Components: []model.Component{
			{Name: "root login", Method: "fileKeyValue", Arguments: []byte(`{"key":"PermitRootLogin","path":"/etc/ssh/sshd_config","separator":" ","value":"{{ .params.root }}"}`)},
			{Name: "service", Method: "service", Arguments: []byte(`{"name":"ssh","state":"running"}`), When: `changed("root login")`},
			{Name: "keys[ada]", Method: "filePresent", Arguments: []byte(`{"path":"{{ .item.value }}"}`), Item: map[string]string{"key": "ada", "value": "/home/ada/.ssh"}},
		},
		Blocks: []model.Block{{Name: "login", First: 1, Count: 2, Reporting: model.ReportFocus, FocusFirst: 2, FocusCount: 1}}, Cron: "0 3 * * *", TimeZone: "UTC", Splay: time.Hour, OneShot: &model.OneShotWindow{FromUnixMs: 1766541600000, UntilUnixMs: 1766556000000},
		Parameters: map[string]string{"root": "no"}, Interval: 5 * time.Minute, Timeout: time.Minute, Grace: time.Hour, Heartbeat: time.Hour, Severity: model.Average, Handlers: []string{"on-call"}, Route: "night",
	}).ToDefinition()
}

// golden returns one encoded example of each message and journal record.
func golden() []struct {
	name    string
	message string
	bytes   []byte
} {
	definition := goldenDefinition()
	body := AppendDefinition(nil, definition)
	definition.Hash = DefinitionHash(body)
	props := []Property{{Name: "disk_warn", Value: []byte(`"15%"`)}, {Name: "site", Error: "groups east and west disagree"}}
	gen := Generation{Epoch: 1764000000, Revision: 42}
	hash := AssignmentHash([]*model.Definition{definition}, props, nil)
	live := StreamKey{Stream: 0x0123456789abcdef, Lane: Live}
	back := StreamKey{Stream: 0x0123456789abcdef, Lane: Backlog}
	batch := &Batch{StreamKey: live, First: 901, NowMs: 7200500, Signals: []Signal{
		ResultSignal(Signal{Definition: 17, AtMs: 7200123}, Result{Status: model.Warning, DurationMs: 31, Output: []byte("DISK WARNING - 14% free on /|/=86%;85;90")}),
		{Kind: SignalKeepalive, AtMs: 7200500},
		ResultSignal(Signal{Definition: 18, AtMs: 7200400}, Result{DurationMs: 2, Output: []byte("OK \xff not UTF-8"), Cut: 1 << 20}),
	}}
	batchFrame := AppendBatch(nil, batch)
	_, batchBody, _ := FrameKind(batchFrame)
	times, values := goldenValues()
	record := func(r Record) []byte { return AppendRecord(nil, &r) }
	return []struct {
		name    string
		message string
		bytes   []byte
	}{
		{"01-hello", "Frame", AppendHello(nil, &Hello{Protocol: Protocol, Node: goldenNode, Name: "web01", MachineID: "5b0c1f0e9d3a4c27",
			BootID: "6f1d", Session: 0xfeedface, Version: "0.1.0", OS: "linux", Arch: "amd64", Generation: gen, Assignment: hash,
			Incarnation: 0xabad1dea, Streams: []StreamRange{{StreamKey: live, First: 901, Last: 903, OldestAgeMs: 377},
				{StreamKey: back, First: 55, Last: 54}},
			Labels: map[string]string{"env": "prod", "role": "web"}, Facts: map[string]string{"kernel": "6.12.48"},
			Groups: []string{"web"}, ClockUnixMs: 1764007200500, Backlog: 3, Features: Features()})},
		{"02-welcome", "Frame", AppendWelcome(nil, &Welcome{Protocol: Protocol, Name: "web01", Node: 214, ServerUnixMs: 1764007200600,
			Incarnation: 0xabad1dea, Last: []StreamLast{{StreamKey: live, Last: 900}, {StreamKey: back, Last: 54}}, KeepaliveMs: 20000,
			MaxFrame: MaxFrame, MaxUnacked: 4 << 20, MaxOutput: 65536, ResultsPerSec: 1000, Servers: []string{"muster.example:7780"}})},
		{"03-refuse", "Frame", AppendRefuse(nil, &Refuse{Code: "revoked", Message: "this node was removed by ada on 2026-11-20",
			Hint: "muster-agent enrol --force"})},
		{"04-assignment-whole", "Frame", AppendAssignment(nil, &Assignment{Generation: gen, Hash: hash,
			Add: []AssignedDefinition{{ID: 17, Body: body}}, Properties: props, HasProperties: true, Signature: bytes.Repeat([]byte{0x5a}, 64)})},
		{"05-assignment-difference", "Frame", AppendAssignment(nil, &Assignment{Generation: Generation{gen.Epoch, 43}, Hash: [32]byte{1},
			Base: hash, Remove: []model.DefinitionID{17, 300}, Signature: bytes.Repeat([]byte{0x5b}, 64)})},
		{"06-assignment-status", "Frame", AppendAssignmentStatus(nil, &AssignmentStatus{Generation: gen, Hash: hash, Refused: []RefusedDefinition{{Definition: 18, Reason: "kind 2 is not known"}}})},
		{"07-batch", "Frame", batchFrame},
		{"07-batch-extra", "Frame", AppendBatch(nil, &Batch{StreamKey: live, First: 904, NowMs: 7200600, Signals: []Signal{
			ResultSignal(Signal{Definition: 17, AtMs: 7200200}, Result{Status: model.Critical, Output: []byte("load is 9|load1=9"), Extra: AppendExtra(nil, &Extra{
				Hooks: []model.HookResult{{Name: "top", Status: model.OK, Output: "PID 1", Cut: 7, Duration: model.Duration(12 * time.Millisecond), ExitCode: 7}},
				Sensu: &SensuRun{ExitCode: 127, Sequence: 3, Issued: 1764007200, OutputFrom: 2, OutputTo: 9, Tail: "\n"},
				Values: []model.Value{{Name: "load1", Value: 9},
					{Name: "cpu", Tags: map[string]string{"cpu": "0", "mode": "idle"}, Value: -0.25, At: time.UnixMilli(1764007200500)}},
			})})}})},
		{"08-batch-gap", "Frame", AppendBatch(nil, &Batch{StreamKey: back, First: 55, NowMs: 7200900, Gap: &Gap{Last: 1054,
			Reason: "spool full", Counts: []GapCount{{Kind: SignalResult, Definition: 17, Count: 600}, {Kind: SignalReport, Definition: 18, Count: 400}}}})},
		{"09-ack", "Frame", AppendAck(nil, &Ack{Last: []StreamLast{{StreamKey: live, Last: 903}},
			Refused: []RefusedSignal{{StreamKey: live, Number: 903, Code: "limited", Reason: "output of 70000 bytes, at most 65536"}}})},
		{"10-run", "Frame", AppendRun(nil, &Run{Definition: 17})},
		{"11-back-pressure", "Frame", AppendBackPressure(nil, &BackPressure{LingerMs: 2000, Reason: "disk full"})},
		{"12-bye", "Frame", AppendBye(nil, &Bye{Reason: "draining", RetryMs: 5000})},
		{"13-definition", "Definition", body},
		{"14-facts", "Frame", AppendFacts(nil, &Facts{Labels: map[string]string{"env": "prod"}, Facts: map[string]string{"kernel": "6.12.49", "cpus": "8"}, Groups: []string{"web"}})},
		{"15-stats", "Frame", AppendStats(nil, &Stats{UptimeMs: 86400000, Spooled: 3, SpoolBytes: 4096, Runs: 57600, Forks: 43200, Skipped: 2, Late: 7,
			BytesSent: 5 << 20, ResidentBytes: 12 << 20, OldestMs: 61000})},
		{"16-run-command", "Frame", AppendRun(nil, &Run{ID: 0xfeedface, Command: &model.Command{Shell: "uptime"}, TimeoutMs: 30000, MaxOutput: 65536})},
		{"17-run-output", "Frame", AppendRunOutput(nil, &RunOutput{ID: 0xfeedface, Output: []byte(" 02:11:09 up 12 days\n")})},
		{"18-run-output-done", "Frame", AppendRunOutput(nil, &RunOutput{ID: 0xfeedface, Last: true, Status: model.Unknown, Refused: "this agent takes no commands (--no-run)"})},
		{"19-back-pressure-lasts", "Frame", AppendBackPressure(nil, &BackPressure{LingerMs: 5000, Reason: "the server's disk is behind", LastsMs: 12000})},
		{"13-definition-more", "Definition", AppendDefinition(nil, otherGoldenDefinition())},
		{"31-assignment-proxy-checks", "Frame", AppendAssignment(nil, &Assignment{Generation: gen, Hash: hash, Base: [32]byte{1}, HasProxyChecks: true, ProxyChecks: ProxyChecks{
			Nodes: []ProxyNode{{Node: 301, Name: "switch1", Properties: []Property{{Name: "address", Value: []byte(`"192.0.2.7"`)}}}, {Node: 302, Name: "switch2"}},
			Sets:  []ProxySet{{Definitions: []model.DefinitionID{17, 40}, Nodes: []model.NodeID{301, 302}}, {Definitions: []model.DefinitionID{41}, Nodes: []model.NodeID{302}}},
		}, Signature: bytes.Repeat([]byte{0x5a}, 64)})},
		{"32-batch-proxy", "Frame", AppendBatch(nil, &Batch{StreamKey: live, First: 905, NowMs: 7200700, Signals: []Signal{
			ResultSignal(Signal{Definition: 17, AtMs: 7200690, Node: 301}, Result{Status: model.Critical, DurationMs: 3, Output: []byte("no answer")}),
			{Kind: SignalResult, AtMs: 7200691, Node: 302}}})},
		{"33-round-robin-runs", "Frame", AppendRoundRobinRuns(nil, &RoundRobinRuns{Runs: []RoundRobinRun{{Definition: 17, Node: 301}, {Definition: 42}}})},
		{"34-definition-proxy", "Definition", AppendDefinition(nil, (&model.CheckDefinition{Definition: model.Definition{Unit: 9, Namespace: 2, Name: "ping"}, Command: &model.Command{Shell: "check_ping -H {{ .props.address }}"},
			Interval: time.Minute, Timeout: time.Minute, FailAfter: 1, RecoverAfter: 1, Proxy: true, RoundRobin: true}).ToDefinition())},
		{"35-definition-pipelines", "Definition", AppendDefinition(nil, (&model.CheckDefinition{Definition: model.Definition{Unit: 9, Namespace: 2, Name: "disk"}, Command: &model.Command{Shell: "check_disk"},
			Interval: time.Minute, Timeout: time.Minute, FailAfter: 1, RecoverAfter: 1, Pipelines: []string{"alerts", "shared/metrics"},
			Hooks: []model.Hook{{Name: "who", When: []string{"critical"}, Command: &model.Command{Shell: "w"}, Stdin: true}}}).ToDefinition())},
		{"36-welcome-features", "Frame", AppendWelcome(nil, &Welcome{Protocol: Protocol, Name: "web01", Node: 214, Features: []string{FeatureSecrets}})},
		{"47-welcome-inventory", "Frame", AppendWelcome(nil, &Welcome{Protocol: Protocol, Name: "web01", Node: 214, Features: []string{FeatureInventory}, Inventory: 0xfeedface})},
		{"48-run-inventory", "Frame", AppendRun(nil, &Run{Inventory: true})},
		{"49-batch-inventory", "Frame", AppendBatch(nil, &Batch{StreamKey: live, First: 909, NowMs: 7200900, Signals: []Signal{
			{Kind: SignalInventory, AtMs: 7200890, Body: AppendInventory(nil, &Inventory{Complete: true, Sum: 0xfeedface, Added: []model.InventoryEntry{{Section: 5, Fields: []string{"openssl", "3.0.11-1~deb12u2", "amd64", "deb"}}}})},
			{Kind: SignalInventory, AtMs: 7200891, Body: AppendInventory(nil, &Inventory{Base: 0xfeedface, Sum: 0xcafe, Added: []model.InventoryEntry{{Section: 7, Fields: []string{"ann"}}}, Removed: []model.InventoryEntry{{Section: 5, Fields: []string{"openssl"}}}})}}})},
		{"37-definition-secrets", "Definition", AppendDefinition(nil, (&model.CheckDefinition{Definition: model.Definition{Unit: 9, Namespace: 2, Name: "db"}, Command: &model.Command{Shell: "check_db"},
			Interval: time.Minute, Timeout: time.Minute, FailAfter: 1, RecoverAfter: 1, Secrets: []model.DefinitionSecret{
				{Env: "DB_PASSWORD", Name: "default/db"}, {Env: "TOKEN", Name: "default/token", AgentFile: "token"}, {Env: "KEY", Name: "shared/key", AgentEnv: "KEY"}}}).ToDefinition())},
		{"38-exchange-secrets-request", "Frame", AppendExchange(nil, &Exchange{ID: 0xfeedface, SecretsRequest: &SecretsRequest{Names: []string{"default/db", "shared/key"}}})},
		{"39-exchange-secrets-reply", "Frame", AppendExchange(nil, &Exchange{ID: 0xfeedface, SecretsReply: &SecretsReply{Values: []SecretValue{
			{Name: "default/db", Value: []byte("correct horse"), LeaseMs: 300000}, {Name: "shared/key", Error: "the server has no file /etc/muster/key"}}}})},
		{"40-definition-discard-output", "Definition", AppendDefinition(nil, (&model.CheckDefinition{Definition: model.Definition{Unit: 9, Namespace: 2, Name: "traffic"}, Command: &model.Command{Shell: "measure"},
			Interval: time.Minute, Timeout: time.Minute, FailAfter: 1, RecoverAfter: 1, Metrics: &model.Metrics{Format: "influxdb"}, DiscardOutput: true, StdinEvent: true, Proxy: true, Sensu: true, OwnEntity: true}).ToDefinition())},
		{"41-batch-pipelines", "Frame", AppendBatch(nil, &Batch{StreamKey: live, First: 906, NowMs: 7200800, Signals: []Signal{
			ResultSignal(Signal{Definition: model.BuiltinDefinitionID(model.MetricsCheck), AtMs: 7200790}, Result{Output: []byte("1 values"), Extra: AppendExtra(nil, &Extra{Values: []model.Value{{Name: "logins", Value: 3}}, Pipelines: []string{"sensu-influx", "graphs"}})})}})},
		{"42-batch-values", "Frame", AppendBatch(nil, &Batch{StreamKey: live, First: 907, NowMs: 7200900, Signals: []Signal{
			{Kind: SignalValueBlock, Definition: 19, AtMs: 7200890, Body: AppendValueBlock(nil, &ValueBlock{Rows: uint32(len(values)), Columns: AppendColumns(nil, times, values)})}}})},
		{"45-batch-values-unix-ns", "Frame", AppendBatch(nil, &Batch{StreamKey: live, First: 908, NowMs: 7200950, Signals: []Signal{{Kind: SignalValueBlock, Definition: 19,
			Body: AppendValueBlock(nil, &ValueBlock{Rows: uint32(len(values)), Columns: AppendColumns(nil, times, values), UnixNs: 1795233665123456789, Keys: []string{"vfs.fs.size[/,pused]"}})}}})},
		{"51-batch-values-log", "Frame", AppendBatch(nil, &Batch{StreamKey: live, First: 909, NowMs: 7200960, Signals: []Signal{
			{Kind: SignalValueBlock, Definition: 19, Body: AppendValueBlock(nil, &ValueBlock{Log: LogPosition{Item: 0xfeedface, Size: 5_000_000_000, MTime: 1795233665}})}}})},
		{"43-definition-template", "Definition", AppendDefinition(nil, templateDefinition())},
		{"45-definition-directive", "Definition", AppendDefinition(nil, directiveDefinition())},
		{"50-definition-rule-group", "Definition", AppendDefinition(nil, ruleGroupDefinition())},
		{"47-definition-waiver", "Definition", AppendDefinition(nil, (&model.WaiverDefinition{Definition: model.Definition{Unit: 11, Namespace: 2, Name: "old-ssh"}, Technique: "shared/sshd",
			Directive: "sshd", DirectiveNamespace: 2, Components: []string{"root login"}, ExpiresUnixMs: 1798135200000}).ToDefinition())},
		{"46-batch-report", "Frame", AppendBatch(nil, &Batch{StreamKey: live, First: 908, NowMs: 7200900, Signals: []Signal{
			{Kind: SignalReport, Definition: 20, AtMs: 7200890, Body: AppendReport(nil, &Report{Components: 3, Codes: []byte{0x52, 0x00}, Enforced: true, DurationMs: 120,
				Exceptions: []ReportException{{Position: 1, Message: "PermitRootLogin is yes, not no"}}, HeldMs: 90000, Ended: "the run took longer than 5m",
				Signed: AppendSignedRun(nil, &SignedRun{Number: 300, UnixMs: 1764007200500, Equal: true, Previous: [32]byte{1}, Assignment: [32]byte{2}, Signature: [64]byte{3}, Certificate: []byte{0x30, 0x00}})})}}})},
		{"20-record-batch", "", append(AppendBatchRecord(nil, 214), batchBody...)},
		{"21-record-session", "SessionRecord", record(Record{Kind: RecordSession, Node: 214, Session: &SessionRecord{Session: 0xfeedface,
			Start: true, Namespace: 2, KeepaliveMs: 20000, TimeoutMs: 120000, Backlog: 3}})},
		{"28-record-no-keepalive", "SessionRecord", record(Record{Kind: RecordSession, Node: model.ServerNode, Session: &SessionRecord{Session: 0xfeedface, Start: true, Namespace: 1, NoKeepalive: true}})},
		{"44-record-every-keepalive", "SessionRecord", record(Record{Kind: RecordSession, Node: 214, Session: &SessionRecord{Session: 0xfeedface, Start: true, Namespace: 2, TimeoutMs: 120000, EveryKeepalive: true, Registered: true}})},
		{"22-record-started", "StartedRecord", record(Record{Kind: RecordStarted})},
		{"23-record-intent", "IntentRecord", record(Record{Kind: RecordIntent, Intent: IntentRecord{Revision: 42, Incarnation: 0xfeedface, Intent: 0xcafe, LastID: 1007,
			History: 0xbeef, Recorded: 99, Authority: 0xf00d}})},
		{"24-record-deregistered", "ForgetRecord", record(Record{Kind: RecordForget, Node: 214, Forget: &ForgetRecord{Deleted: true, Deregistered: "default/web01", Handlers: "default/cmdb,shared/log", Reason: "no session for 1h", Entity: `{"entity_class":"agent"}`}})},
		{"24-record-forget", "ForgetRecord", record(Record{Kind: RecordForget, Node: 214, Forget: &ForgetRecord{Check: 5, Deleted: true}})},
		{"25-record-action", "ActionRecord", record(Record{Kind: RecordAction, Node: 214, Action: &Action{Verb: "resolve", Check: 5, By: "ada", Note: "replaced the disk"}})},
		{"25-record-acknowledge", "ActionRecord", record(Record{Kind: RecordAction, Node: 214, Action: &Action{Verb: "acknowledge", Check: 5, By: "ada", Note: "on it", Until: 1795300000000}})},
		{"25-record-action-of-problem", "ActionRecord", record(Record{Kind: RecordAction, Node: 214, Action: &Action{Verb: "resolve", Check: 5, By: "Ada (PagerDuty)", Problem: "3npvq9h2m4x8ztwk"}})},
		{"26-record-server-result", "ServerResultRecord", record(Record{Kind: RecordServerResult, Node: model.ServerNode, ServerResult: &ServerResult{Definition: 2, Status: model.Critical, Output: []byte("journal at 92 % of its budget")}})},
		{"29-record-verdict", "VerdictRecord", record(Record{Kind: RecordVerdict, Node: 214, Verdict: &Verdict{Severity: model.High, Commit: 9001, Index: 1, Definition: 19, Trigger: "load is high",
			Problem: true, Executed: 1764007200500000000, Output: []byte("last(//system.cpu.load)>4: 4.5"), Labels: map[string]string{"scope": "performance"}, Description: "The machine has more work than processors."}})},
		{"45-record-samples", "SamplesRecord", record(Record{Kind: RecordSamples, Samples: &Samples{Block: goldenSamples()}})},
		{"51-record-discovery", "DiscoveryRecord", record(Record{Kind: RecordDiscovery, Node: 214, Discovery: &DiscoveryRecord{Unit: 1007, Hold: true, Items: 300}})},
		{"52-record-resume", "ResumeRecord", record(Record{Kind: RecordResume, Node: 214, Resume: ResumeRecord{Steps: 3000}})},
		{"27-record-proxy-result", "ProxyResultRecord", record(Record{Kind: RecordProxyResult, Node: 301, ProxyResult: &ProxyResult{StreamKey: live, Number: 905, By: 214, Namespace: 2,
			NowMs: 7200700, Signal: []byte{0x08, 0x07, 0x10, 0x11, 0x18, 0xad, 0x02, 0x52, 0x00}}})},
	}
}

// TestGoldenBytes encodes messages, and expects the bytes of the golden files. The files hold text and hexadecimal
// bytes for authors of other agents. They change only together with a protocol number.
func TestGoldenBytes(t *testing.T) {
	find := compileDefinition(t)
	for _, g := range golden() {
		path := filepath.Join("testdata", "golden", g.name+".txt")
		var out strings.Builder
		if g.message != "" {
			pkg, body := "muster.v1.", g.bytes
			if strings.HasSuffix(g.message, "Record") {
				pkg, body = "muster.journal.v1.", g.bytes[1:]
			}
			m := dynamicpb.NewMessage(find(pkg + g.message))
			if err := proto.Unmarshal(body, m); err != nil {
				t.Fatalf("golden message %s: error %v", g.name, err)
			}
			text := prototext.MarshalOptions{Multiline: true}.Format(m)
			// The library varies its spaces on purpose.
			out.WriteString(strings.ReplaceAll(strings.TrimSpace(text), ":  ", ": ") + "\n\n")
		}
		for line := range slices.Chunk(g.bytes, 32) {
			out.WriteString(hex.EncodeToString(line) + "\n")
		}
		testenv.Golden(t, path, out.String(), "agents and journals out there have these bytes: only what is new may differ")
	}
}

// The hash of an assignment and the bytes under its signature equal the golden file.
func TestHashesAndSignedBytes(t *testing.T) {
	definition := goldenDefinition()
	definition.Hash = DefinitionHash(AppendDefinition(nil, definition))
	sum := AssignmentHash([]*model.Definition{definition}, []Property{{Name: "disk_warn", Value: []byte(`"15%"`)}}, nil)
	signed := SignedBytes(goldenNode, Generation{1764000000, 42}, sum)
	got := hex.EncodeToString(definition.Hash[:]) + "\n" + hex.EncodeToString(sum[:]) + "\n" + hex.EncodeToString(signed) + "\n"
	path := filepath.Join("testdata", "golden", "30-hashes.txt")
	testenv.Golden(t, path, got, "agents and journals out there have these bytes: only what is new may differ")
	// What stands in one property must not be able to stand in two.
	a := AssignmentHash(nil, []Property{{Name: "ab", Value: []byte("c")}}, nil)
	if b := AssignmentHash(nil, []Property{{Name: "a", Value: []byte("bc")}}, nil); a == b {
		t.Error("two assignments, one hash")
	}
}

// TestProtocolPageShowsGoldenBytes expects docs/protocol/README.md to show the same example bytes as the golden files.
func TestProtocolPageShowsGoldenBytes(t *testing.T) {
	page, err := os.ReadFile("../../docs/protocol/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"07-batch", "09-ack"} {
		text, err := os.ReadFile(filepath.Join("testdata", "golden", name+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		if block := "```\n" + strings.TrimSpace(string(text)) + "\n```\n"; !strings.Contains(string(page), block) {
			t.Errorf("docs/protocol/README.md does not show %s as it is:\n%s", name, block)
		}
	}
}
