// Package fleet makes a scenario of a live installation: how many nodes hold which shape of
// checks, how often those run, how much they say, what states they are in, how often
// machines come and go. Nothing that names anything leaves it: names become hashes with a
// key, and outputs, labels and commands are not read into it, only their lengths.
//
// Read asks a server's API, page by page and with pauses, as somebody who may only look.
// Fleet.Scenario puts nodes of about the same shape into a few classes, and finds the checks that
// groups of several of them share (shared.go); Shape.YAML is the file, with comments for people.
//
// It owns no goroutine and no lock. Start at read.go, then classes.go and write.go.
package fleet
