// Package gate is the release check: it holds what a run cost beside what it cost when the
// baseline was made, and says which figure grew by more than is allowed. Only figures that
// are nearly the same on every machine count (limits.go says which, and why by how much);
// times are shown and decide nothing.
//
// It plays nothing: `muster load check` does. Start reading at judge.go.
package gate
