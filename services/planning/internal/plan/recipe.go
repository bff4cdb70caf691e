package plan

import "github.com/busbar-mcp/busbar/services/planning/internal/task"

// part is a step that a kind of work or a topic asks for.
type part struct {
	action string
	stage  stage
	// goal: this step fulfils the goal.
	goal bool
	// when reports whether the task needs the step; nil means always.
	when func(*builder) bool
	// act of a demand that is this step, so that no other is needed.
	act string
}

// recipes lists the steps that the goal of each kind of work needs besides its requirements. Unneeded
// steps are dropped.
var recipes = map[task.Kind][]part{
	task.Build: {
		{action: "designSolution", stage: decide, when: several, act: "design"},
		{action: "buildCore", stage: work, goal: true},
		{action: "automateTests", stage: verify, when: several, act: "automate"},
		{action: "acceptWhole", stage: verify, when: several},
		{action: "handOver", stage: rollout, when: several, act: "deploy"},
	},
	task.Fix: {
		{action: "reproduceDefect", stage: analyse},
		{action: "findCause", stage: analyse, act: "investigate"},
		{action: "writeFailingTest", stage: decide, act: "regress"},
		{action: "fixDefect", stage: work, goal: true},
		{action: "verifyFix", stage: verify},
		{action: "releaseFix", stage: rollout, act: "deploy"},
	},
	task.Migrate: {
		{action: "takeInventory", stage: analyse, act: "collect"},
		{action: "planSwitchover", stage: decide},
		{action: "rehearse", stage: verify},
		{action: "migrate", stage: rollout, goal: true},
		{action: "reconcile", stage: follow, when: movesData},
	},
	task.Investigate: {
		{action: "frameQuestion", stage: analyse},
		{action: "investigate", stage: work, goal: true},
		{action: "drawConclusions", stage: verify},
		{action: "reportFindings", stage: rollout, when: unreported},
	},
	task.Write: {
		{action: "gatherFacts", stage: analyse, act: "collect"},
		{action: "outline", stage: decide},
		{action: "draft", stage: work, goal: true},
		{action: "proofread", stage: verify, act: "review"},
		{action: "finishText", stage: rollout, when: unreported},
	},
	task.Analysis: {
		{action: "obtainData", stage: analyse, act: "collect"},
		{action: "checkData", stage: analyse},
		{action: "computeResult", stage: work, goal: true},
		{action: "interpretResult", stage: verify},
		{action: "reportFindings", stage: rollout, when: unreported},
	},
	task.Incident: {
		{action: "assessImpact", stage: prepare},
		{action: "containIncident", stage: analyse},
		{action: "findCause", stage: decide, act: "investigate"},
		{action: "restoreService", stage: work, goal: true},
		{action: "confirmRecovery", stage: verify},
		{action: "holdPostmortem", stage: follow},
	},
	task.Event: {
		{action: "settleFrame", stage: decide},
		{action: "bookVenue", stage: work, when: without("venue", "book")},
		{action: "inviteGuests", stage: work, when: without("guests", "inform")},
		{action: "planDay", stage: verify},
		{action: "holdEvent", stage: rollout, goal: true},
		{action: "closeEvent", stage: follow},
	},
	task.Learn: {
		{action: "assessLevel", stage: analyse},
		{action: "chooseMaterial", stage: decide, act: "collect"},
		{action: "study", stage: work, goal: true},
		{action: "checkLearning", stage: verify},
	},
	task.Buy: {
		{action: "setCriteria", stage: decide},
		{action: "shortlist", stage: work, act: "collect"},
		{action: "compareOptions", stage: verify, act: "compare"},
		{action: "buy", stage: rollout, goal: true},
		{action: "acceptDelivery", stage: follow},
	},
	task.General: {
		{action: "clarifyGoal", stage: analyse},
		{action: "carryOut", stage: work, goal: true},
		{action: "checkOutcome", stage: verify},
	},
}

func several(b *builder) bool { return b.demanding >= 1 }

// unreported: no demand writes or presents the results.
func unreported(b *builder) bool {
	for i, d := range b.task.Demands {
		if i != b.task.Goal && (d.Act == "write" || d.Act == "present" || d.About("report")) {
			return false
		}
	}
	return true
}

// without: no demand is about a topic or begins with an act.
func without(topic, act string) func(*builder) bool {
	return func(b *builder) bool {
		for i, d := range b.task.Demands {
			if d.About(topic) || i != b.task.Goal && d.Act == act {
				return false
			}
		}
		return true
	}
}

func movesData(b *builder) bool {
	for _, d := range b.task.Demands {
		if d.About("data") || d.About("dataloss") {
			return true
		}
	}
	return false
}

// doing is the step that an act asks for.
type doing struct {
	action string
	stage  stage
}

var byAct = map[string]doing{
	"build": {"implement", work}, "change": {"changeExisting", work}, "remove": {"removeExisting", work}, "fix": {"fixDefect", work},
	"migrate": {"migrate", work}, "investigate": {"investigate", analyse}, "analyse": {"computeResult", work}, "collect": {"gatherInputs", analyse},
	"compare": {"compareOptions", analyse}, "measure": {"measure", verify}, "decide": {"decide", decide}, "design": {"designSolution", decide},
	"write": {"writeDocument", work}, "test": {"test", verify}, "review": {"review", verify}, "deploy": {"rollOut", rollout},
	"monitor": {"setUpMonitoring", work}, "arrange": {"arrange", work}, "book": {"book", work}, "inform": {"informPeople", work}, "buy": {"buy", work},
	"learn": {"study", work}, "automate": {"writeTests", work}, "regress": {"writeTests", work}, "practise": {"practise", work}, "teach": {"trainPeople", rollout}, "approve": {"obtainApproval", decide},
	"backup": {"backUpData", prepare}, "restore": {"restoreService", work},
	"present": {"presentResults", rollout}, "seek": {"arrange", work}, "do": {"carryOut", work}, "keep": {"keepAsIs", work}, "translate": {"translate", rollout},
}

// byKind is the step for a property, if no act is named.
var byKind = map[task.Kind]doing{
	task.Build: {"implement", work}, task.Fix: {"implement", work}, task.Migrate: {"implement", work}, task.Investigate: {"investigate", work},
	task.Write: {"coverTopic", work}, task.Analysis: {"computeResult", work}, task.Incident: {"carryOut", work}, task.Event: {"arrange", work},
	task.Learn: {"study", work}, task.Buy: {"applyCriterion", verify}, task.General: {"carryOut", work},
}

// byTopic is the step for a demand about a topic, if no act is named.
var byTopic = map[string]doing{
	"rollback": {"prepareRollback", decide}, "budget": {"estimateCost", decide}, "legal": {"clarifyRules", analyse},
	"tests": {"test", verify}, "docs": {"writeDocument", work}, "monitoring": {"setUpMonitoring", work}, "approval": {"obtainApproval", decide},
	"training": {"trainPeople", rollout}, "comms": {"informPeople", rollout}, "guests": {"arrange", work}, "venue": {"book", work}, "transport": {"book", work},
	"lodging": {"book", work}, "weather": {"prepareAlternative", work}, "rollout": {"rollOut", rollout}, "deadline": {"schedule", decide}, "report": {"writeReport", work},
}

// extras lists the steps that a topic needs besides the demand's own: one before, shared by all demands of
// the topic, and one after it.
var extras = map[string]struct{ before, after part }{
	"performance":   {part{action: "prepareLoadTest", stage: prepare}, part{action: "measureUnderLoad", stage: verify}},
	"security":      {part{action: "modelThreats", stage: analyse}, part{action: "testSecurity", stage: verify}},
	"privacy":       {part{action: "listPersonalData", stage: analyse}, part{action: "testPrivacy", stage: verify}},
	"dataloss":      {part{action: "backUpData", stage: prepare, act: "backup"}, part{action: "reconcile", stage: follow}},
	"availability":  {part{}, part{action: "testFailure", stage: verify}},
	"rollback":      {part{}, part{action: "rehearseRollback", stage: verify}},
	"compatibility": {part{action: "listConsumers", stage: analyse}, part{action: "testCompatibility", stage: verify}},
	"platform":      {part{}, part{action: "testPlatforms", stage: verify}},
	"accessibility": {part{}, part{action: "testAccessibility", stage: verify}},
	"i18n":          {part{}, part{action: "testLanguages", stage: verify}},
	"monitoring":    {part{}, part{action: "triggerAlert", stage: verify}},
	"integration":   {part{action: "readContract", stage: analyse}, part{action: "testIntegration", stage: verify}},
	"ui":            {part{action: "sketchInterface", stage: decide}, part{}},
}

// measuredOnly lists topics whose demands limit everything else. They are checked, but need no work step
// of their own.
var measuredOnly = map[string]bool{"performance": true, "availability": true, "dataloss": true, "accessibility": true, "compatibility": true, "platform": true}

// technical reports whether a kind of work is about software.
func technical(k task.Kind) bool {
	return k == task.Build || k == task.Fix || k == task.Migrate || k == task.Incident
}

// asks reports whether a topic needs its extra steps in a kind of work: a repair needs neither screens nor
// partners.
func asks(k task.Kind, topic string) bool {
	switch k {
	case task.Build, task.Migrate:
		return true
	case task.Fix:
		return topic != "ui" && topic != "integration"
	case task.Incident:
		return topic == "monitoring" || topic == "dataloss"
	}
	return false
}

// eventTopics have their meaning only if people meet.
var eventTopics = map[string]bool{"venue": true, "transport": true, "lodging": true, "guests": true, "weather": true, "catering": true, "programme": true}

// plain lists acts whose steps are for software; elsewhere the kind of work includes them anyway.
var plain = map[string]bool{"build": true, "change": true, "remove": true, "deploy": true, "migrate": true, "fix": true, "monitor": true, "design": true, "automate": true, "regress": true}

// passive lists acts that determine the step even if the demand does not begin with them: "has to be
// tested".
var passive = map[string]bool{"deploy": true, "inform": true, "teach": true, "approve": true, "monitor": true, "backup": true, "test": true, "review": true, "translate": true}

// reports reports whether a kind of work ends with writing and presenting.
func reports(k task.Kind) bool {
	return k == task.Investigate || k == task.Analysis || k == task.Buy
}
