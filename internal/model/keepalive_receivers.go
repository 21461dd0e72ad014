package model

import "slices"

// KeepaliveReceivers is who is to hear of the node's keepalive; nil: nobody is named. said: its agent names
// them, so that some may not be there.
func (s *NodeSpec) KeepaliveReceivers() (h *KeepaliveReceivers, said bool) {
	if k := s.Keepalive; k != nil && len(k.Handlers)+len(k.Pipelines) > 0 {
		return &KeepaliveReceivers{k.Handlers, k.Pipelines}, false
	}
	if s.AgentReceivers.Empty() {
		return nil, false
	}
	return s.AgentReceivers, true
}

// Empty says whether nobody is named.
func (h *KeepaliveReceivers) Empty() bool { return h == nil || len(h.Handlers)+len(h.Pipelines) == 0 }

// Equal says whether both name the same.
func (h *KeepaliveReceivers) Equal(o *KeepaliveReceivers) bool {
	if h.Empty() || o.Empty() {
		return h.Empty() == o.Empty()
	}
	return slices.Equal(h.Handlers, o.Handlers) && slices.Equal(h.Pipelines, o.Pipelines)
}
