package queue

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// Kind describes one kind of queue in the server. It has the name, the default capacity and the allowed policies for a
// full queue.
type Kind struct {
	Name     string
	Unit     string   // items or bytes
	Capacity int64    // default capacity; 0: other settings determine the capacity, and it cannot be set
	Policies []Policy // allowed policies, the default first
	Holds    string   // description of the items in the queue
	Full     string   // effect when the queue is full
}

// Kinds returns the descriptions of all queues in a server, sorted by name.
func Kinds() []Kind {
	return []Kind{
		{"alerts", "items", 64, []Policy{Drop, Block}, "Requests with alerts (`/alertmanager/`) in progress.", "drop: refused, the sender repeats the request; block: requests wait."},
		{"applies", "items", 66, []Policy{Drop}, "Applies in progress and applies that wait; two run at once. One user has a quarter of the places.", "Refused; try again."},
		{"asset-fetches", "items", 64, []Policy{Drop}, "Agents that are fetching an archive of an Asset.", "Refused; the agent tries again later, and the results of the checks that need the Asset report it."},
		{"samples", "items", 16, []Policy{Drop, Block}, "Requests with samples (`/prometheus/…/api/v1/write`) in progress.", "drop: refused, the sender repeats the request; block: requests wait."},
		{"callbacks", "items", 32, []Policy{Drop}, "Calls of services (`/callback/`) in progress; any client can open one.", "Refused; the service repeats the call."},
		{"deliveries", "items", 100_000, []Policy{GiveUp}, "Deliveries that a handler has not accepted yet, per handler; the depth is the maximum of all handlers. The history store holds them.",
			"The newest deliveries fail at once: `muster describe problem ID` shows them."},
		{"enrolments", "items", 100, []Policy{Drop, Block}, "Machines that are joining now.", "drop: refused, the agent tries again; block: machines wait."},
		{"event-view", "items", 32, []Policy{Block}, "Commits of the journal that wait for a worker of the event view, per worker (event-view-0, …).",
			"The journal commits more slowly, and sessions stop reading."},
		{"facts", "items", 0, []Policy{Merge}, "Nodes whose facts and labels are not written into intent yet.", "At most one entry for each node."},
		{"journal", "bytes", 32 << 20, []Policy{Block}, "Records that wait for a commit of the journal.", "Sessions stop reading, and agents spool their results. From a quarter full on, agents that send values send fewer, larger batches; from half full on, all agents."},
		{"logins", "items", 18, []Policy{Drop}, "Logins in progress and logins that wait; two password checks run at once, because each needs memory.", "Refused; try again. Tokens still work."},
		{"pending", "items", 1000, []Policy{Drop}, "Machines that asked to join without a token and wait for a decision (`muster node list --pending`); in memory only.",
			"The server refuses a new machine, which asks again; it forgets machines that did not ask for five minutes."},
		{"pipelines", "bytes", 64 << 20, []Policy{Rederive, Block}, "Events that Sensu pipelines have not processed yet.",
			"As for reactions: rederive: drops items and derives them again from the journal; block: the event view waits, and all acknowledgements wait."},
		{"previews", "items", 34, []Policy{Drop}, "Applies of users who may not change resources, in progress and waiting; two run at once.", "Refused; try again."},
		{"reactions", "bytes", 64 << 20, []Policy{Rederive, Block}, "Transitions that history has not recorded yet.",
			"rederive: drops transitions and derives them again from the journal, which retains their records; block: the event view waits, and all acknowledgements wait."},
		{"reports", "items", 18, []Policy{Drop}, "Reports on noise in progress and reports that wait; two run at once, because each reads much of the history.", "Refused; try again."},
		{"requests", "items", 500, []Policy{Drop, Block}, "API requests in progress, without watches and logins. One user has a quarter of the places.", "drop: refused, try again; block: requests wait."},
		{"run-output", "bytes", 32 << 20, []Policy{Drop}, "Output of runs (`muster run`) that their callers have not fetched yet.", "The output is truncated, and the run shows by how many bytes."},
		{"runs", "items", 32, []Policy{Drop}, "Open calls of `muster run`. One user has a quarter of the places.", "The server refuses more."},
		{"sensu-pushes", "items", 0, []Policy{Merge}, "Sessions of Sensu agents with a run request or another message to send.", "At most one entry for each session. Exists only with --sensu-listen."},
		{"session-acks", "items", 0, []Policy{Merge}, "Sessions with an acknowledgement to send.", "At most one entry for each session."},
		{"session-pushes", "items", 0, []Policy{Merge}, "Sessions with an assignment or another message to send.", "At most one entry for each session."},
		{"snapshots", "items", 0, []Policy{Block}, "Snapshots on disk that wait until history has recorded all earlier transitions.",
			"At most one for every two partitions; then the next snapshot waits, and the journal deletes no segments."},
		{"uploads", "items", 4, []Policy{Drop}, "Archives of Assets that are being uploaded now (`muster asset add`).", "Refused; try again."},
		{"watch-events", "items", 1 << 16, []Policy{End}, "Changed events that a watch has not read yet, per watch; the depth is the maximum of all watches.", "The watch ends, and its client lists the events again."},
		{"watches", "items", 256, []Policy{Drop}, "Open watches (`get events -w`). One user has a quarter of the places.", "The server refuses more."},
	}
}

// findKind returns the kind of queue with the given name.
func findKind(name string) (Kind, bool) {
	all := Kinds()
	i := slices.IndexFunc(all, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return Kind{}, false
	}
	return all[i], true
}

// Unit returns the unit (items or bytes) of a queue's depth. The queue of one worker, such as event-view-3, has the
// unit of its kind event-view.
func Unit(name string) string {
	if k, ok := findKind(name); ok {
		return k.Unit
	}
	if i := strings.LastIndexByte(name, '-'); i > 0 {
		if _, err := strconv.ParseUint(name[i+1:], 10, 32); err == nil {
			return Unit(name[:i])
		}
	}
	return "items"
}

// Settings has the capacities and policies that an operator has set, by the name of the queue
type Settings map[string]queueSetting

// queueSetting has the capacity and the policy that an operator has set for one queue
type queueSetting struct {
	capacity int64
	policy   Policy
}

// ParseSettings parses an operator's queue settings, each NAME=CAPACITY or NAME=POLICY. The error lists every problem.
func ParseSettings(list []string) (Settings, error) {
	out := Settings{}
	var problems []error
	for _, text := range list {
		name, value, _ := strings.Cut(text, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		k, ok := findKind(name)
		if !ok {
			problems = append(problems, unknownQueueError(text, name))
			continue
		}
		set := out[name]
		var err error
		if value != "" && value[0] >= '0' && value[0] <= '9' {
			set.capacity, err = k.parseCapacity(value)
		} else {
			set.policy, err = k.parsePolicy(value)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", text, err))
		}
		out[name] = set
	}
	return out, errors.Join(problems...)
}

// unknownQueueError returns the error for a setting that names an unknown queue.
func unknownQueueError(text, name string) error {
	var names []string
	for _, k := range Kinds() {
		names = append(names, k.Name)
	}
	if near := model.Nearest(name, names); near != "" {
		return fmt.Errorf("%s: unknown queue %q; did you mean %s?", text, name, near)
	}
	return fmt.Errorf("%s: unknown queue %q; queues: %s", text, name, strings.Join(names, ", "))
}

// parseCapacity parses the capacity in an operator's setting for the kind of queue.
func (k Kind) parseCapacity(text string) (int64, error) {
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
		return 0, fmt.Errorf("%q is not a number of items, such as 1000", text)
	}
	return n, nil
}

// parsePolicy parses the policy in an operator's setting for the kind of queue.
func (k Kind) parsePolicy(text string) (Policy, error) {
	if slices.Contains(k.Policies, Policy(text)) {
		return Policy(text), nil
	}
	return "", fmt.Errorf("%q is not a policy of %s: expected one of %s", text, k.Name, k.policyNames())
}

// policyNames lists the allowed policies for the kind of queue.
func (k Kind) policyNames() string {
	names := make([]string, len(k.Policies))
	for i, p := range k.Policies {
		names[i] = string(p)
	}
	return strings.Join(names, ", ")
}

// Reference returns the text of the reference page of all queues, docs/reference/queues.md.
func Reference() string {
	var b strings.Builder
	b.WriteString(`# Queues

All work that waits in a server waits in one of these bounded queues. ` + "`muster get queues`" + ` shows their
depth; so do the metrics ` + "`muster_queue_depth`, `_capacity`, `_passed_total` and `_overflow_total`" + `.
` + "`--queues NAME=CAPACITY` and `--queues NAME=POLICY`" + ` set capacity and policy (several separated by commas; in the
configuration file a list). The first policy of a queue is its default. This page is generated from the code.

| queue | capacity | policy | items | when it is full |
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
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", k.Name, capacity, k.policyNames(), k.Holds, k.Full)
	}
	b.WriteString(`
## On the agent
The spool uses at most ` + "`--spool-size`" + ` on disk. Half of it (32 MiB by default; see the probe ` + "`agent`" + `)
holds results, at most as old as ` + "`--spool-age`" + `; the other half is space to rewrite them. Above that, the agent deletes the oldest results of the
checks with the most results, and reports the loss as one event per check. The newest signals, at most 1 MiB,
are in memory. The server limits the unacknowledged bytes (` + "`max-unacked`" + `). A check that is due
while its last run is active waits for the end of that run: each check has at most one active run.
`)
	return b.String()
}
