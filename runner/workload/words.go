package workload

import "strings"

// words are short and common in English, so that most tokenizers give each about one token. The order is part of the
// prompts' bytes: append only, and raise hashVersion.
func words() []string {
	return strings.Fields(`
able acid act add age aid aim air all also and any apple area arm army art ask aunt away baby back bad bag
ball band bank bar base bath beach bean bear beat bed bee beer bell belt bench bend best big bike bill bird
bit bite black blade block blood blow blue board boat body bold bolt bomb bone book boot born both bowl box
boy brain bread break brick bring broad brown brush build bulb burn bus bush busy but buy cake call calm camp
can cap car card care case cash cat catch cause cave cell chain chair chalk chart cheap check cheek chest
chief child chin city claim class clay clean clear climb clock close cloth cloud club coach coal coast coat
code coin cold cook cool copy corn cost cotton could count court cover cow crack craft crash cream crew crop
cross crowd cry cup cut dance dark data date dawn day deal dear deep deer desk dirt dish dog door dot down
draft draw dream dress drink drive drop drum dry duck dust duty each ear early earn earth ease east eat edge
egg eight else empty end enjoy enter equal even ever every exit eye face fact fair fall false fan far farm
fast fat fear feed feel few field fifth fight fill film find fine fire first fish five fix flag flat floor
flour flow fly fog fold folk food foot for force fork form fort four frame free fresh friend frog from front
fruit fuel full fun fur gain game gap gas gate gear get giant gift girl give glad glass glove glue goal goat
gold good grain grand grape grass gray great green grey group grow guard guess guest guide gun hair half hall
hand hang happy hard hat have head heal hear heart heat heavy hello help hen her here hero hide high hill hint
hire hit hold hole home hook hope horn horse host hot hour house how huge human hunt hurry ice idea inch ink
inside iron island item jacket jam jar jet job join joke joy judge juice jump just keep key kick kid kind king
kiss kit kite knee knife knock know lab lack lady lake lamp land lane large last late laugh law layer lazy
lead leaf learn least leave left leg lemon lend less let letter level lid life lift light like limit line lion
lip list live load loan lock log long look lord lose loss lost lot loud love low luck lunch mad mail main make
man many map mark mass match math meal mean meat meet melt menu metal mice mild milk mill mind mine mint miss
mix mode model moon more most mouse mouth move much mud music must nail name near neat neck need nest net
never new news next nice night nine noise none noon north nose note now nurse oak oar ocean odd off offer oil
old one only onto open orange order other our out oven over own pack page pain paint pair palm pan paper park
part party pass past path pay peace pear pen pet phone photo piano pick pie pig pin pipe place plan plane
plant plate play plus poem point pole pond pool poor port post pot pound press price print prize proof pull
pump pure push put queen quick quiet quite race radio rail rain raise range rate raw reach read ready real red
rest rice rich ride right ring rise river road rock role roof room root rope rose rough round row rule run
rush safe sail salt same sand save scale school sea seat seed seem self sell send seven shade shake shape
share sharp sheep shelf shell ship shirt shoe shop short show shut sick side sign silk silver simple since
sing sink sit six size skill skin sky sleep slow small smart smell smile smoke smooth snow soap sock soft soil
some son song soon sort soul sound soup south space speak speed spell spend spoon sport spot spring square
stage stair stamp stand star start state stay steam steel step stick still stone stop store storm story stove
street strong such sugar suit sum summer sun swim table tail take talk tall tank tape task taste tea teach
team tell ten tent test than thank that them then there thick thin thing think third this three throw thumb
ticket tide tie tiger time tin tiny tip tire toe today tone tool tooth top touch tour tower town toy track
trade train tree trip truck true trust try tube tune turn twelve twin two type under unit until upon use
valley value very view visit voice vote wait wake walk wall want war warm wash watch water wave way weak wear
week well west wet what wheel when where which while white who whole why wide wife wild will win wind window
wine wing winter wire wise wish with wolf woman wood wool word work world worm worth write wrong yard year
yellow yes yet you young your zero zone
`)
}
