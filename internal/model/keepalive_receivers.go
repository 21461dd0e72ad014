package model

import "slices"

// KeepaliveReceivers returns the handlers and pipelines of the node's keepalive; nil: none are named. fromAgent:
// its agent names them, so some may not exist.
func (s *NodeSpec) KeepaliveReceivers() (h *KeepaliveReceivers, said bool) {
	if k := s.Keepalive; k != nil && len(k.Handlers)+len(k.Pipelines) > 0 {
		return &KeepaliveReceivers{k.Handlers, k.Pipelines}, false
	}
	if s.AgentReceivers.Empty() {
		return nil, false
	}
	return s.AgentReceivers, true
}

// Empty reports whether no receiver is named.
func (h *KeepaliveReceivers) Empty() bool { return h == nil || len(h.Handlers)+len(h.Pipelines) == 0 }

// Equal reports whether both name the same receivers.
func (h *KeepaliveReceivers) Equal(o *KeepaliveReceivers) bool {
	if h.Empty() || o.Empty() {
		return h.Empty() == o.Empty()
	}
	return slices.Equal(h.Handlers, o.Handlers) && slices.Equal(h.Pipelines, o.Pipelines)
}
