package core

import (
	"context"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
)

// SecretTimeout bounds the look-up of the secrets of one request. Agents wait longer.
const SecretTimeout = 12 * time.Second

// SecretValue is the value of a Secret, and the time for which an agent may keep it.
type SecretValue struct {
	Text  string
	Lease time.Duration
}

// SecretFunc finds the value of a Secret. Its error is for people and contains no value.
type SecretFunc func(ctx context.Context, namespace, name string) (SecretValue, error)

// Resolve finds the values of secrets at the same time, within SecretTimeout. values and errs have the order of names.
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

// checkOf returns the first check of a node's present assignment for which has is true; nil: there is none.
func checkOf(assignments directory.Assignments, node model.NodeID, has func(*model.CheckChunk) bool) *model.CheckChunk {
	a := assignments.For(node)
	if a == nil {
		return nil
	}
	for _, chunk := range a.Chunks {
		if c := chunk.AsCheck(); c != nil && has(c) {
			return c
		}
	}
	return nil
}

// NamesSecret reports whether a check of the node's present assignment names a secret that the server finds.
func NamesSecret(assignments directory.Assignments, node model.NodeID, secret string) bool {
	return checkOf(assignments, node, func(c *model.CheckChunk) bool {
		for i := range c.Secrets {
			if c.Secrets[i].Name == secret && c.Secrets[i].OnServer() {
				return true
			}
		}
		return false
	}) != nil
}
