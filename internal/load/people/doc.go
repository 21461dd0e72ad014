// Package people is who works through the API beside a load run: people who list, watch, write,
// silence, run commands and look for facts, at times that the scenario and its seed decide; and
// the pages of events that a run without a scenario asks for.
//
//	people.go    who there is, and what those who list, watch, write and silence do
//	commands.go  commands at once, and facts that change
//	rate.go      when somebody asks, and what is given up
//	pages.go     pages of events, one kind after the other
//
// Goroutines: one for each of them, and one for each fact that is looked for, all of Work.
// Locks: People.mu, under which Run.Waited and Run.Away are called. Start reading at people.go.
package people
