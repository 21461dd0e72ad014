package core

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/queue"
)

// SecretTimeout limits the time to look up the secrets of one request. Agents wait longer.
const SecretTimeout = 12 * time.Second

// SecretValue is the value of a Secret with the time for which an agent may keep the value.
type SecretValue struct {
	Text  string
	Lease time.Duration
}

// SecretFunc is a function that returns the value of a Secret by namespace and name. Its error is for people and
// contains no value.
type SecretFunc func(ctx context.Context, namespace, name string) (SecretValue, error)

// Resolve reads the values of several secrets in parallel, within SecretTimeout. values and errs have the order of
// names.
func (find SecretFunc) Resolve(ctx context.Context, names []string) (values []SecretValue, errs []error) {
	ctx, cancel := context.WithTimeout(ctx, SecretTimeout)
	defer cancel()
	values, errs = make([]SecretValue, len(names)), make([]error, len(names))
	var finding sync.WaitGroup
	for i, ref := range names {
		finding.Go(func() {
			namespace, name := model.SplitRef("", ref)
			values[i], errs[i] = find(ctx, namespace, name)
		})
	}
	finding.Wait()
	return values, errs
}

// anyAssigned reports whether the given function returns true for any check or directive in a node's
// assignment.
func anyAssigned(assignments directory.Assignments, node model.NodeID, has func(*model.Definition) bool) bool {
	a := assignments.AssignmentOf(node)
	return a != nil && slices.ContainsFunc(a.Definitions, has)
}

// UsesSecret reports whether any check in the assignment of a node uses a given secret. Checks, Templates and
// directives may refer to secrets.
func UsesSecret(assignments directory.Assignments, node model.NodeID, secret string) bool {
	return anyAssigned(assignments, node, func(c *model.Definition) bool {
		return slices.ContainsFunc(c.Secrets(), func(s model.DefinitionSecret) bool { return s.Name == secret && s.OnServer() })
	})
}

// FetchTimeout limits the time to transfer one archive. An agent asks again for the missing rest.
const FetchTimeout = 15 * time.Minute

// Archives opens the asset archives that agents download, for agents of all protocols. The queue asset-fetches
// bounds the number of transfers at a time.
type Archives struct {
	open        func(sum [64]byte) (io.ReadSeekCloser, error)
	assignments directory.Assignments
	slots       *queue.Slots
	log         *slog.Logger
}

// NewArchives returns the opener of asset archives that agents download. open finds an archive by its SHA-512;
// open is nil if this server has no archives. The error of open is for the agent.
func NewArchives(open func(sum [64]byte) (io.ReadSeekCloser, error), assignments directory.Assignments, r *queue.Registry, log *slog.Logger) *Archives {
	return &Archives{open: open, assignments: assignments, slots: queue.NewSlots(r, "asset-fetches"), log: log}
}

// Open opens an asset archive for a node, after a wait for a free transfer slot. A check or directive of the node's
// assignment must use the archive. The caller calls done after the transfer. outcome is a metric label.
func (a *Archives) Open(ctx context.Context, node model.NodeID, sum [64]byte) (f io.ReadSeeker, done func(), outcome string, err error) {
	if a.open == nil {
		return nil, nil, "unknown", model.Errorf(model.NotFound, "this server does not serve asset archives")
	}
	text := hex.EncodeToString(sum[:])
	named := anyAssigned(a.assignments, node, func(c *model.Definition) bool {
		return slices.ContainsFunc(c.Assets(), func(used model.DefinitionAsset) bool {
			return slices.ContainsFunc(used.Builds, func(b model.AssetBuild) bool { return b.SHA512 == text })
		})
	})
	if !named {
		return nil, nil, "not_assigned", model.Errorf(model.Forbidden, "no check or directive in this node's assignment uses the requested archive")
	}
	if a.slots.Enter(ctx) != nil {
		return nil, nil, "busy", model.Errorf(model.Unavailable, "too many archives are being sent; try again later")
	}
	file, err := a.open(sum)
	if err != nil {
		a.slots.Leave()
		return nil, nil, "missing", err
	}
	return file, func() { _ = file.Close(); a.slots.Leave() }, "served", nil
}

// PublicError returns an error text that the agent may see, without details about the server. An error of this server
// is logged, and the agent is not sent its details.
func (a *Archives) PublicError(err error, path string) *model.Error {
	public := &model.Error{Class: model.Internal, Message: "the server cannot read the archive; its log has the reason"}
	if !errors.As(err, &public) {
		a.log.Error("read an archive of an asset", "path", path, "err", err)
	}
	return public
}
