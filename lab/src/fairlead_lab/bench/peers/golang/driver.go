// Measures a matcher written in Go: driver RULES EVENTS ROUNDS SLICE_S SAMPLE PATIENCE_S; one line of JSON comes out.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// matcher is what the file beside this one adapts.
type matcher interface {
	add(id int, rule []byte) error
	match(event []byte) ([]int, error)
}

func main() {
	rules, events := lines(os.Args[1]), lines(os.Args[2])
	runtime.LockOSThread() // whose time is measured
	rounds, slice, sample := whole(os.Args[3]), number(os.Args[4]), whole(os.Args[5])
	patience := number(os.Args[6])
	answer := map[string]any{}
	defer func() { check(json.NewEncoder(os.Stdout).Encode(answer)) }()

	before := used()
	peer := newMatcher()
	started := time.Now()
	for id, rule := range rules {
		check(peer.add(id, rule))
		if time.Since(started).Seconds() > patience {
			answer["too_slow"] = fmt.Sprintf("adding %d of %d rules took %.0f s", id, len(rules), patience)
			return
		}
	}
	answer["fill_s"] = time.Since(started).Seconds()
	answer["bytes"] = used() - before

	found := [][]int{}
	started = time.Now()
	for count, event := range events[:sample] {
		ids, err := peer.match(event)
		check(err)
		found = append(found, ids)
		if time.Since(started).Seconds() > patience {
			answer["too_slow"] = fmt.Sprintf("matching %d events took %.0f s", count+1, patience)
			return
		}
	}
	answer["found"] = found

	run(peer, events, slice)
	rates := []float64{}
	for round := 0; round < rounds; round++ {
		rates = append(rates, run(peer, events, slice))
	}
	answer["rates"] = rates
	runtime.KeepAlive(peer)
}

// run matches for about so many seconds of the core that this thread has, one event at a time: events per second of it.
func run(peer matcher, events [][]byte, slice float64) float64 {
	done, started := 0, core()
	for {
		for count := 0; count < 16; count++ {
			_, err := peer.match(events[done%len(events)])
			check(err)
			done++
		}
		if took := core() - started; took >= slice {
			return float64(done) / took
		}
	}
}

// core is the seconds of a core that this thread has used; those of the collector are not held against it.
func core() float64 {
	var usage syscall.Rusage
	check(syscall.Getrusage(1, &usage)) // of this thread alone
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

func used() int64 {
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	return int64(memory.HeapAlloc)
}

func lines(path string) [][]byte {
	file, err := os.Open(path)
	check(err)
	defer file.Close()
	found := [][]byte{}
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		found = append(found, append([]byte(nil), scanner.Bytes()...))
	}
	check(scanner.Err())
	return found
}

func whole(text string) int {
	value, err := strconv.Atoi(text)
	check(err)
	return value
}

func number(text string) float64 {
	value, err := strconv.ParseFloat(text, 64)
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
