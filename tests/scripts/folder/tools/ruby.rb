# Does one of the things that scripts can.
#
# @param do string        Which.
# @param [about] string   A file or an address to do it with.
require "zcp"

about = Zcp.args["about"]
name = { type: "object", properties: { name: { type: "string" } }, required: ["name"] }

begin
  case Zcp.args["do"]
  when "progress"
    Zcp.progress(1, 4, "begun")
    sleep 0.1
    Zcp.progress(2.5, 4)
    sleep 0.1
    Zcp.progress(4, 4, "all done")
    puts "told"
  when "log"
    Zcp.log("info", "starting")
    Zcp.log("warning", { disk: 91 })
    puts "told"
  when "content"
    puts '{"city":"Oslo"}'
    Zcp.text("and more")
    Zcp.file("files/dot.png")
    Zcp.file("files/tone.wav")
    Zcp.file("files/note.txt")
    Zcp.link("https://example.com/map", "Map")
  when "print" then $stdout.binmode.write(File.binread(about))
  when "ask" then puts JSON.generate(Zcp.ask("name", "Your name?", name))
  when "confirm" then puts Zcp.confirm("sure", "Sure?") ? "yes" : "no"
  when "visit"
    Zcp.visit("page", "Please sign.", about)
    puts "visited"
  when "sample" then puts Zcp.sample("joke", "A joke, please.", max_tokens: 50)
  when "roots" then puts(Zcp.roots.map { |root| root["uri"] })
  when "once"
    File.write(about, "run\n", mode: "a")
    runs = Zcp.once("runs") { File.readlines(about).size }
    Zcp.confirm("sure", "Sure?")
    puts runs
  when "twice" then puts "#{Zcp.once("word") { "first" }} #{Zcp.once("word") { "second" }}"
  when "updated" then Zcp.updated(about)
  when "detach"
    Zcp.detach
    sleep 0.5
    puts "done"
  when "exit"
    puts "half done"
    warn "no such city"
    exit 3
  when "fail" then Zcp.fail("Give a city.")
  end
rescue Zcp::NoAnswer => e
  puts e.class.name.delete_prefix("Zcp::")
end
