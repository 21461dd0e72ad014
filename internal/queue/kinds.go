package queue

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// Kind describes one queue of the server and its settings.
type Kind struct {
	Name     string
	Unit     string   // items or bytes
	Capacity int64    // default; 0: derived from other settings, cannot be set
	Policies []Policy // allowed ones, the default first
	Holds    string   // description of the items
	Full     string   // effect of a full queue
}

// Kinds returns all queues of a server, sorted by name.
func Kinds() []Kind {
	return []Kind{
		{"alerts", "items", 64, []Policy{Drop, Block}, "Requests with alerts (`/alertmanager/`) that are being read or answered.", "drop: refused, the sender says it again; block: they wait."},
		{"applies", "items", 34, []Policy{Drop}, "Changes of resources that are being applied, and those that wait for their turn: two at a time, a body may be large.", "Refused; try again."},
		{"asset-fetches", "items", 64, []Policy{Drop}, "Agents that fetch an archive of an Asset now.", "Sent away; the agent tries again by and by, and its checks that need it say so."},
		{"callbacks", "items", 32, []Policy{Drop}, "Calls of services (`/callback/`) that are being read or answered; anybody may begin one.", "Refused; services call again."},
		{"deliveries", "items", 100_000, []Policy{GiveUp}, "Notifications that a handler has not taken yet, per handler; the depth is that of the fullest. They lie in the history store.",
			"The newest are recorded as given up: `muster describe problem ID` shows them."},
		{"enrolments", "items", 100, []Policy{Drop, Block}, "Machines that are joining now.", "drop: sent away, the agent tries again; block: they wait."},
		{"event-view", "items", 32, []Policy{Block}, "Commits of the journal on the way to a worker of the event view, per worker (event-view-0, …).",
			"The journal commits slower, and sessions stop reading."},
		{"facts", "items", 0, []Policy{Merge}, "Nodes whose facts and labels are not written into intent yet.", "At most one entry for each node."},
		{"journal", "bytes", 32 << 20, []Policy{Block}, "What waits to be committed to the journal.", "Sessions stop reading, and agents keep their results. From half of it on they are asked for rarer batches."},
		{"logins", "items", 18, []Policy{Drop}, "Logins whose password is being looked at, and those that wait for their turn: two at a time, each costs memory.", "Refused; try again. Tokens go on working."},
		{"pending", "items", 1000, []Policy{Drop}, "Machines that asked to join without a token and that nobody has accepted or refused yet (`muster node list --pending`); in memory only.",
			"A newcomer is sent away and asks again; who has not asked for five minutes makes room."},
		{"pipelines", "bytes", 64 << 20, []Policy{Rederive, Block}, "Events that pipelines kept from Sensu have not seen yet.",
			"As of reactions: rederive: dropped, and made again from the journal; block: the event view waits, and with it all acknowledgements."},
		{"reactions", "bytes", 64 << 20, []Policy{Rederive, Block}, "Changes of events that history has not recorded yet.",
			"rederive: dropped, and made again from the journal, which keeps them until then; block: the event view waits, and with it all acknowledgements."},
		{"reports", "items", 18, []Policy{Drop}, "Reports on noise that are being made, and those that wait for their turn: two at a time, each reads much of the history.", "Refused; try again."},
		{"requests", "items", 500, []Policy{Drop, Block}, "Requests to the API that are being answered; watches and logins are counted apart.", "drop: refused, try again; block: they wait."},
		{"run-output", "bytes", 32 << 20, []Policy{Drop}, "What runs wrote (`muster run`) and their callers have not fetched yet.", "It is cut, and the run says how much."},
		{"runs", "items", 16, []Policy{Drop}, "Calls of `muster run` that are open.", "One more is refused."},
		{"sensu-pushes", "items", 0, []Policy{Merge}, "Sessions of Sensu's agents that are due to be asked for a run, or told something else.", "At most one entry for each session. There only with --sensu-listen."},
		{"session-acks", "items", 0, []Policy{Merge}, "Sessions to which an acknowledgement is due.", "At most one entry for each session."},
		{"session-pushes", "items", 0, []Policy{Merge}, "Sessions to which an assignment or another message is due.", "At most one entry for each session."},
		{"snapshots", "items", 0, []Policy{Block}, "Snapshots that are on disk and wait until history holds what lies before them.",
			"At most one for every second partition; the next snapshot waits, and the journal is not cut."},
		{"uploads", "items", 4, []Policy{Drop}, "Archives of Assets that are being uploaded now (`muster asset add`).", "Refused; try again."},
		{"watch-events", "items", 1 << 16, []Policy{End}, "Events that changed and that a watch has not read yet, per watch; the depth is that of the fullest.", "The watch ends, and its reader lists again."},
		{"watches", "items", 256, []Policy{Drop}, "Watches (`get events -w`) that are open.", "One more is refused."},
	}
}

func find(name string) (Kind, bool) {
	all := Kinds()
	i := slices.IndexFunc(all, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return Kind{}, false
	}
	return all[i], true
}

// Unit returns the unit of a queue's depth: items or bytes. Worker queues such as event-view-3
// have the unit of event-view.
func Unit(name string) string {
	if k, ok := find(name); ok {
		return k.Unit
	}
	if i := strings.LastIndexByte(name, '-'); i > 0 {
		if _, err := strconv.ParseUint(name[i+1:], 10, 32); err == nil {
			return Unit(name[:i])
		}
	}
	return "items"
}

// Settings are the operator's settings by name of the queue.
type Settings map[string]setting

type setting struct {
	capacity int64
	policy   Policy
}

// ParseSettings parses NAME=CAPACITY and NAME=POLICY. The error lists every problem.
func ParseSettings(list []string) (Settings, error) {
	out := Settings{}
	var problems []error
	for _, text := range list {
		name, value, _ := strings.Cut(text, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		k, ok := find(name)
		if !ok {
			problems = append(problems, unknown(text, name))
			continue
		}
		set := out[name]
		var err error
		if value != "" && value[0] >= '0' && value[0] <= '9' {
			set.capacity, err = k.capacity(value)
		} else {
			set.policy, err = k.policy(value)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", text, err))
		}
		out[name] = set
	}
	return out, errors.Join(problems...)
}

func unknown(text, name string) error {
	var names []string
	for _, k := range Kinds() {
		names = append(names, k.Name)
	}
	if near := model.Nearest(name, names); near != "" {
		return fmt.Errorf("%s: no queue is called %q; did you mean %s?", text, name, near)
	}
	return fmt.Errorf("%s: no queue is called %q: %s", text, name, strings.Join(names, ", "))
}

func (k Kind) capacity(text string) (int64, error) {
	if k.Capacity == 0 {
		return 0, fmt.Errorf("the capacity of %s cannot be set: %s", k.Name, k.Full)
	}
	if k.Unit == "bytes" {
		size, err := model.ParseSize(text)
		if err == nil && size < 1<<20 {
			err = errors.New("expected at least 1MiB")
		}
		return int64(size), err
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%q is no number of items", text)
	}
	return n, nil
}

func (k Kind) policy(text string) (Policy, error) {
	if slices.Contains(k.Policies, Policy(text)) {
		return Policy(text), nil
	}
	return "", fmt.Errorf("%q is no policy of %s: it knows %s", text, k.Name, k.policies())
}

func (k Kind) policies() string {
	names := make([]string, len(k.Policies))
	for i, p := range k.Policies {
		names[i] = string(p)
	}
	return strings.Join(names, ", ")
}

// Reference returns the text of docs/reference/queues.md.
func Reference() string {
	var b strings.Builder
	b.WriteString(`# Queues

Whatever waits in a server waits in one of these; each is bounded. ` + "`muster get queues`" + ` shows how full
they are, ` + "`muster_queue_depth`, `_capacity`, `_passed_total` and `_overflow_total`" + ` are the metrics.
` + "`--queues NAME=CAPACITY` and `--queues NAME=POLICY`" + ` set them (several separated by commas; in the
configuration file a list). The policy that stands first is the default. This page is generated from the code.

| queue | capacity | policy | what waits | when it is full |
|---|---|---|---|---|
`)
	for _, k := range Kinds() {
		capacity := "follows"
		switch {
		case k.Capacity > 0 && k.Unit == "bytes":
			capacity = model.Size(k.Capacity).String()
		case k.Capacity > 0:
			capacity = fmt.Sprint(k.Capacity)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", k.Name, capacity, k.policies(), k.Holds, k.Full)
	}
	b.WriteString(`
## On the agent
The spool takes at most ` + "`--spool-size`" + ` on disk: half of it (32 MiB by default, what the probe ` + "`agent`" + ` speaks of)
holds results, those of ` + "`--spool-age`" + `; the other half is room to write them anew. Beyond it the oldest results of the
checks with the most give way, and what gave way becomes one event per check. At most 1 MiB of the newest
signals is in memory, and as much as the server allows (` + "`max-unacked`" + `) is on the way. A check that is due
while its last run has not ended waits for it: there is at most one run of each.
`)
	return b.String()
}
