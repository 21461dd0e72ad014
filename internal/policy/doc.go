// Package policy has the pure parts of compliance: it compiles a directive with its technique to components, evaluates
// conditions of components, decides which run counts for a node, and computes percentages. Agent and server share it. It
// has no state, no clock and no input or output; start reading at Compile, Status and Decide.
package policy
